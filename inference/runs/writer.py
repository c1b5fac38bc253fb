"""The queue before the one writer: results gather for a moment, go to the disk in a batch, and nothing is forgotten on the way."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from inference.context import Context
from inference.runs.outcomes import Outcome
from inference.runs.resultrows import Lens
from inference.runs.results import Written, write_results

log = structlog.get_logger(__name__)

BATCH: Final = 256
LINGER_S: Final = 0.25
RETRIES: Final = 3
RETRY_S: Final = 0.5
DISK_ERRORS: Final = (OSError, SQLAlchemyError, sqlite3.Error)
"""Disk full, database locked or gone: worth another try, and then a pause that says so"""


class ResultWriter:
    """One run's results on their way to the disk, in batches of at most 256 or a quarter of a second.

    Args:
        ctx: the context.
        run_id: the run.
        lens: how its ids are read.
        executor: where blocking work is done.
        on_written: called on the event loop after each batch.
    """

    def __init__(
        self, ctx: Context, run_id: int, lens: Lens, executor: Executor, on_written: Callable[[Written], None]
    ) -> None:
        self._ctx = ctx
        self._run_id = run_id
        self._lens = lens
        self._executor = executor
        self._on_written = on_written
        self._queue: deque[Outcome] = deque()
        self._added = asyncio.Event()
        self._full = asyncio.Event()
        self._current: asyncio.Future[Written] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.trouble: str | None = None
        """A sentence while the disk or the database refuses to take results; they are kept and tried again"""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def busy(self) -> bool:
        """Whether anything is not on the disk yet."""
        return not self._idle.is_set()

    def add(self, outcome: Outcome) -> None:
        """Hand over one outcome."""
        self._queue.append(outcome)
        self._idle.clear()
        self._added.set()
        if len(self._queue) >= BATCH:
            self._full.set()

    def hurry(self) -> None:
        """Write what there is without waiting for more."""
        self._full.set()

    async def flushed(self, timeout_s: float | None = None) -> bool:
        """Wait until all is on the disk; False where it took too long."""
        self.hurry()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def settled(self) -> None:
        """Wait for the batch that a thread is writing, whatever comes of it.

        To be awaited after `run` was cancelled: a thread cannot be, and ids that it stores late, when another runner has
        made the same attempt again, would overwrite those.
        """
        if self._current is not None:
            await asyncio.wait([self._current])

    async def run(self) -> None:
        """Write batches until cancelled."""
        while True:
            await self._added.wait()
            if len(self._queue) < BATCH:
                try:
                    async with asyncio.timeout(LINGER_S):
                        await self._full.wait()
                except TimeoutError:
                    pass
            self._full.clear()
            while self._queue:
                await self._write_one()
                if 0 < len(self._queue) < BATCH:
                    break
            if not self._queue:
                self._added.clear()
                self._idle.set()

    async def _write_one(self) -> None:
        batch = [self._queue[number] for number in range(min(BATCH, len(self._queue)))]
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._current = loop.run_in_executor(
                    self._executor, write_results, self._ctx, self._run_id, self._lens, batch
                )
                written = await asyncio.shield(self._current)
                break
            except DISK_ERRORS as error:
                failures += 1
                log.warning("results_not_written", run_id=self._run_id, failures=failures, error=_cause(error))
                if failures >= RETRIES:
                    self.trouble = (
                        f"Results cannot be written: {_cause(error)}. Free disk space or bring the database back, then "
                        "resume; what was finished is written as soon as that is possible."
                    )
                await asyncio.sleep(RETRY_S * min(failures, 10))
        for _ in batch:
            self._queue.popleft()
        self.trouble = None
        self._on_written(written)


def _cause(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    return " ".join(str(original).split())[:300] or type(original).__name__
