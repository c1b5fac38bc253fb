"""What is done behind the runs, a small piece at a time: rederivations, then the checks of text, then those over all samples.

One piece after the other, never two at once: each finds its own work in the rows, so it does not matter when the worker dies.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from db.tables import Run
from inference.context import Context
from inference.runs.behind.collection import runs_to_sweep, sweep
from inference.runs.behind.rederive import active_job, rederive_slice
from inference.runs.behind.textpass import check_batch, runs_to_check, say_trouble
from inference.runs.resultrows import Lens
from inference.runs.runstate import RunBroken, open_lens
from inference.runs.switches import is_wanted

log = structlog.get_logger(__name__)

BATCH: Final = 64
"""Samples a piece: some tens of milliseconds"""
LENS_S: Final = 20.0
"""How long a run's tokenizer is taken for unchanged"""
BROKEN_S: Final = 60.0
"""How long until a run that cannot be read is tried again"""


class Behind:
    """Does the next piece whenever it is asked to.

    Args:
        ctx: the context.
        clock: monotonic seconds.
    """

    def __init__(self, ctx: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._ctx = ctx
        self._clock = clock
        self._lenses: dict[int, tuple[float, str | None, Lens]] = {}
        self._idle_until: dict[int, float] = {}
        self._last = 0

    def step(self, halt: threading.Event) -> bool:
        """Do one piece; False where there was nothing to do.

        Raises:
            sqlalchemy.exc.SQLAlchemyError, OSError, sqlite3.Error: the database was not there; nothing is half done.
        """
        job = active_job(self._ctx)
        if job is not None:
            rederive_slice(self._ctx, job, halt)
            return True
        return self._check() or self._sweep(halt)

    def _check(self) -> bool:
        runs = self._due(runs_to_check(self._ctx))
        for run_id in [*(number for number in runs if number > self._last), *runs]:  # each run in its turn
            lens = self._lens(run_id)
            if lens is not None:
                self._last = run_id
                return bool(check_batch(self._ctx, run_id, lens, BATCH))
        return False

    def _sweep(self, halt: threading.Event) -> bool:
        for run_id in self._due(runs_to_sweep(self._ctx)):
            lens = self._lens(run_id)
            if lens is not None:
                sweep(self._ctx, run_id, lens.off, halt)
                return True
        return False

    def _due(self, run_ids: list[int]) -> list[int]:
        at = self._clock()
        return [run_id for run_id in run_ids if self._idle_until.get(run_id, at) <= at]

    def _lens(self, run_id: int) -> Lens | None:
        """How to read a run's ids; None (for a while) where nothing is wanted of it, or it cannot be read, which it then says."""
        at = self._clock()
        with self._ctx.db.read() as s:
            run = s.get(Run, run_id)
        if run is None:
            return None
        known = self._lenses.get(run_id)
        if known is not None and known[0] > at and known[1] == run.token_format:
            return known[2]
        try:
            lens = open_lens(self._ctx, run)
        except RunBroken as error:
            log.warning("run_not_checked", run_id=run_id, error=str(error))
            say_trouble(self._ctx, [run_id], str(error))
            self._idle_until[run_id] = at + BROKEN_S
            return None
        if run.check_trouble:
            say_trouble(self._ctx, [run_id], "")
        if not is_wanted(lens.off):
            self._idle_until[run_id] = float("inf")
            return None
        self._lenses = {number: item for number, item in self._lenses.items() if item[0] > at}
        self._lenses[run_id] = (at + LENS_S, run.token_format, lens)
        return lens
