"""Supervisors by the dozen: forked with their imports done, hurried, alone, so that a test can afford to kill many of them."""

import asyncio
import os
import sys
import threading

from db.engine import Database
from db.stores import open_id_store
from inference.backends.supervision.supervisor import Supervisor
from inference.context import Context
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.backends.conftest import HURRIED, passing_probe
from tests.support.worker_nursery import fork_on_request


def supervise() -> int:
    """Until standard input ends."""
    settings = Settings(_env_file=None)
    database = Database(settings.resolved_database_url)
    ids = open_id_store(database, settings.data_dir)
    ctx = Context(settings, database, ids, TokenizerCache(settings.model_roots, False))

    async def until_input_ends() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def watch() -> None:
            while os.read(0, 4096):
                pass
            loop.call_soon_threadsafe(stop.set)

        threading.Thread(target=watch, daemon=True).start()
        await Supervisor(ctx, HURRIED, passing_probe).run(stop)

    asyncio.run(until_input_ends())
    ids.close()
    database.dispose()
    sys.stderr.flush()
    return 0


if __name__ == "__main__":
    fork_on_request(supervise)
