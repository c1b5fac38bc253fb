"""`python -m inference.worker`: the worker process, started and watched by the app; settings come from the environment.

The end of standard input means that the app is gone: nothing more is sent, finished results go to the disk, the servers stay
up for the next worker, and the exit status is 0. SIGTERM and SIGINT do the same. Status 3: another worker holds the data
directory. Where another holds the database this one stands by until that ends; status 4: the database's lock was lost, and
nothing may be supervised or sent until a new worker has it again.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import structlog

from db.engine import Database
from db.exclusive import Exclusive, NotExclusive, exclusive
from db.stores import open_id_store
from inference.context import Context
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from inference.worker.lock import AlreadyRunning, worker_lock
from inference.worker.logs import configure_logs
from inference.worker.loop import work

log = structlog.get_logger(__name__)

THREADS: Final = 8
WAITING_THREADS: Final = 64
"""The supervisor's: most of them wait, for a tree to end or a GPU's memory to come back, up to half a minute each. Python's own
number, the cores and four, would let the ends of a few servers hold up the watch over all others."""
LEAVE_S: Final = 60.0
"""How long a worker that was told to stop may take before it goes anyway"""
HELD: Final = 3
LOST: Final = 4
SWITCH_S: Final = 0.001
"""The event loop waits at most so long for a thread that looks at answers; Python's own 5 ms would starve the servers"""


def main() -> int:
    """Run until told to stop; returns the exit status."""
    configure_logs()
    sys.setswitchinterval(SWITCH_S)
    settings = Settings()
    parent = Parent()
    try:
        with worker_lock(settings.data_dir, gone=parent.gone.is_set):
            lost = _hold_database_and_run(settings, parent)
    except AlreadyRunning as error:
        log.error("worker_not_started", reason=str(error))  # noqa: TRY400  (the sentence says it all)
        return HELD
    except NotExclusive:
        return 0
    log.info("worker_stopped", pid=os.getpid())
    return LOST if lost else 0


class Parent:
    """Watches standard input from a thread of its own (files and /dev/null cannot be polled); a terminal is not watched."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self._tell: Callable[[], object] | None = None
        if not sys.stdin.isatty():
            threading.Thread(target=self._watch, daemon=True, name="stdin").start()

    def when_gone(self, tell: Callable[[], object]) -> None:
        """Call `tell`, from the watching thread, once the parent is gone; at once if it is already."""
        self._tell = tell
        if self.gone.is_set():
            tell()

    def _watch(self) -> None:
        while os.read(0, 4096):
            pass
        self.gone.set()
        if self._tell is not None:
            self._tell()


def _hold_database_and_run(settings: Settings, parent: Parent) -> bool:
    """Work while the database is ours alone; whether its lock was lost."""
    database = Database(settings.resolved_database_url)
    try:
        with exclusive(database, gone=parent.gone.is_set, waiting=_stand_by) as held:
            log.info("worker_started", pid=os.getpid(), data_dir=str(settings.data_dir))
            _run(settings, parent, database, held)
            return held.lost.is_set()
    finally:
        database.dispose()


def _stand_by(reason: str) -> None:
    log.warning(
        "worker_stands_by", pid=os.getpid(), reason=f"This worker waits: {reason}. It begins when that one ends."
    )


def _run(settings: Settings, parent: Parent, database: Database, held: Exclusive) -> None:
    ids = open_id_store(database, settings.data_dir)
    tokenizers = TokenizerCache(settings.model_roots, settings.allow_remote_code)
    ctx = Context(settings=settings, db=database, ids=ids, tokenizers=tokenizers)
    try:
        with ThreadPoolExecutor(THREADS, "worker") as executor, asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_until_told(ctx, parent, held, executor))
    finally:
        ids.close()


async def _until_told(ctx: Context, parent: Parent, held: Exclusive, executor: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(WAITING_THREADS, "waiting"))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    parent.when_gone(partial(loop.call_soon_threadsafe, stop.set))
    held.when_lost(partial(loop.call_soon_threadsafe, stop.set))
    working = asyncio.create_task(work(ctx, stop, executor))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    log.info("worker_stopping")
    done, _ = await asyncio.wait([working], timeout=LEAVE_S)
    if not done:
        log.warning("worker_left_work_behind", waited_s=LEAVE_S)
        working.cancel()
    await asyncio.gather(working, return_exceptions=not done)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fast event loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
