"""The supervisor in a process of its own, with nothing beside it, so that its CPU can be read from outside.

python -m bench.supervisor_alone    (settings from the environment; ends when its standard input does)
"""

import asyncio
import sys
import threading
from functools import partial

from db.engine import Database
from db.stores import open_id_store
from inference.backends.supervision.supervisor import Supervisor
from inference.context import Context
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache


async def supervise(ctx: Context) -> None:
    """Until standard input ends; servers are left running."""
    stop = asyncio.Event()
    threading.Thread(
        target=_when_input_ends, args=(partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set),), daemon=True
    ).start()
    await Supervisor(ctx).run(stop)


def _when_input_ends(tell: "partial[object]") -> None:
    sys.stdin.read()
    tell()


def main() -> None:
    """Run it."""
    settings = Settings(_env_file=None)
    database = Database(settings.resolved_database_url)
    ids = open_id_store(database, settings.data_dir)
    try:
        asyncio.run(supervise(Context(settings, database, ids, TokenizerCache(settings.model_roots, False))))
    finally:
        ids.close()
        database.dispose()


if __name__ == "__main__":
    main()
