"""The runner: takes a run from queued to its end, or to wherever people, the guard or a full disk stop it.

It knows work, backends and a clock, and changes the database through guarded updates only, so that it can be killed at any
moment: what is on the disk counts, what was in flight is done again. Everything here runs on one event loop; what blocks
(rendering, the database, looking at answers) runs in the executor's threads.

    pending ──lease──▶ in flight, rendered ──lane──▶ request ──▶ outcome ──writer──▶ done | failed | pending again
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

import structlog

from inference.context import Context
from inference.quality.guard import RunGuard, Trip
from inference.runs import runstate
from inference.runs.backendrows import keep_breaker, probe_again, tell
from inference.runs.dispatch import Dispatcher
from inference.runs.lanes import Lanes
from inference.runs.planner import plan_batch
from inference.runs.pool import ClientPool
from inference.runs.progress import EVERY_S, Meter, write_progress
from inference.runs.results import Written
from inference.runs.writer import DISK_ERRORS, ResultWriter

log = structlog.get_logger(__name__)

LOOK_S: Final = 0.25
"""How often the run's and the backends' rows are looked at"""
DRAIN_S: Final = 600.0
"""How long a pause waits for what is in flight before it gives it back"""
LAST_WORDS_S: Final = 30.0
"""How long to try to put finished results on the disk before they are given up (and their samples done again)"""


class Runner:
    """One run, until it is settled, paused or told to stop.

    Args:
        ctx: the context.
        run_id: the run.
        clients: the worker's clients.
        executor: threads for what blocks.
        clock: monotonic seconds.
    """

    _work: Dispatcher
    _writer: ResultWriter
    _lanes: Lanes

    def __init__(
        self,
        ctx: Context,
        run_id: int,
        clients: ClientPool,
        executor: Executor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ctx = ctx
        self.run_id = run_id
        self._pool = clients
        self._executor = executor
        self._clock = clock
        self._wake = asyncio.Event()
        self._generation = -1
        self._guard: RunGuard | None = None
        self._trip: Trip | None = None
        self._meter = Meter(clock)
        self._looked = self._measured = float("-inf")
        self._planned = False
        self._progress: dict[str, Any] = {}
        self._said: tuple[str, str] | None = None
        self.refused_results = 0
        """Results that came after their sample had been put back or given away, and were dropped"""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until the run needs no more of it, or `stop` is set (then what is finished is written, and no more).

        Raises:
            sqlalchemy.exc.SQLAlchemyError, OSError, sqlite3.Error: the database was not there at the start.
            inference.runs.runstate.RunBroken: the run cannot be worked on; its sentence says why.
        """
        lens = await self._call(runstate.open_run, self._ctx, self.run_id)
        if lens is None:
            return
        self._lens = lens
        self._lanes = Lanes(self._pool, lens.settings.concurrency, lens.settings.vocab_size)
        self._writer = ResultWriter(self._ctx, self.run_id, lens, self._executor, self._on_written)
        self._work = Dispatcher(self._ctx, self.run_id, lens, self._lanes, self._writer, self._executor, self._wake.set)
        writing = asyncio.create_task(self._writer.run())
        writing.add_done_callback(self._work.ended)
        try:
            await self._go(stop)
        finally:
            await self._work.close()
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await self._writer.settled()

    async def _go(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if self._work.crash is not None:
                raise self._work.crash
            try:
                if not await self._turn():
                    return
            except DISK_ERRORS as error:  # what is in flight is worth more than a look at a row
                log.warning("turn_failed", run_id=self.run_id, error=str(error))
                await asyncio.sleep(LOOK_S)
            await self._rest()
        await self._finish_writing()

    async def _turn(self) -> bool:
        """One turn of the loop; False where the run needs no more of us."""
        if self._clock() - self._looked >= LOOK_S and not await self._look():
            return False
        if self._clock() - self._measured >= EVERY_S:
            await self._measure()
        if self._trip is not None or self._writer.trouble is not None:
            await self._stop_for_cause()
            return True
        self._work.step()
        return not await self._settled()

    async def _look(self) -> bool:
        """Take over how things stand and do what is wanted; False where the run needs no more of us."""
        seen = await self._call(runstate.look, self._ctx, self.run_id)
        self._looked = self._clock()
        await self._take_over(seen)
        self._work.overrides = seen.overrides
        self._work.exhausted = self._planned and seen.pending == 0
        if seen.generation != self._generation:
            self._guard = await self._new_guard()
            self._generation = seen.generation
        if seen.state in {"queued", "running"}:
            await self._prepare(seen)
            return True
        if seen.state == "pausing":
            await self._pause()
        elif seen.state == "cancelling":
            await self._cancel()
        else:
            await self._finish_writing()
        return False

    async def _take_over(self, seen: runstate.Seen) -> None:
        """How the backends stand: to the lanes, and what the lanes found out to the rows."""
        self._lanes.update(seen.backends)
        self._work.drop_ended()
        for backend_id, start_id, stands in self._lanes.breakers():
            await self._call(keep_breaker, self._ctx, backend_id, start_id, stands)
            self._lanes.kept(backend_id, stands)
        for lane in self._lanes.by_id.values():
            if lane.changed is not None and lane.usable:
                await self._call(probe_again, self._ctx, lane.backend_id, self.run_id, lane.changed)
                lane.usable, lane.changed = False, None  # until its row says that it was probed
        if self._lanes.news:
            news = list(self._lanes.news)
            await self._call(tell, self._ctx, self.run_id, news)
            del self._lanes.news[: len(news)]

    async def _prepare(self, seen: runstate.Seen) -> None:
        """Make the sample rows first; then keep the run's state and sentence up with what is happening."""
        if not self._planned:
            self._planned = not await self._call(plan_batch, self._ctx, self.run_id, self._lens.settings)
            self._look_soon()
            return
        waiting = None
        if not self._work.has_backend():
            if not self._work.active:
                self._work.release_ready()
            text = " ".join(self._lanes.whys.values()) or "None of the run's backends exists any more."
            waiting = ("no_backend", f"Waiting for a backend. {text}")
        elif seen.state == "queued":
            await self._call(runstate.start, self._ctx, self.run_id)
        elif self._work.left_out():
            waiting = ("no_backend", f"Waiting for a backend. {' '.join(self._lanes.whys.values())}")
        if waiting != self._said or (waiting is None and seen.reason_kind == "no_backend"):
            await self._call(runstate.say, self._ctx, self.run_id, waiting)
            self._said = waiting

    async def _new_guard(self) -> RunGuard | None:
        thresholds = self._lens.settings.guard
        if thresholds is None:
            return None
        muted = await self._call(runstate.muted_codes, self._ctx, self.run_id)
        return RunGuard(thresholds, self._lens.bound.thinks, muted)

    def _on_written(self, written: Written) -> None:
        self._meter.add(written.done, written.completion_tokens)
        self.refused_results += written.refused
        if written.refused:
            log.info("late_results_refused", run_id=self.run_id, count=written.refused)
        if self._guard is not None and self._trip is None:
            for outcome in written.outcomes:
                self._trip = self._guard.observe(outcome)
                if self._trip is not None:
                    break
        self._wake.set()

    async def _stop_for_cause(self) -> None:
        """The guard tripped, or the disk refuses results: pause, and say why."""
        kind, reason, detail = "error", self._writer.trouble or "", {}
        if self._trip is not None:
            kind, reason = "guard", self._trip.message
            detail = {"code": self._trip.code, "samples": list(self._trip.sample_ids)}
        await self._call(runstate.stop_for, self._ctx, self.run_id, kind, reason, detail)
        self._guard = self._trip = None
        self._look_soon()

    async def _settled(self) -> bool:
        """Whether all is done and written, and the run's state says so."""
        if not self._work.exhausted or not self._work.idle:
            return False
        if self._writer.busy:
            self._writer.hurry()
            return False
        if not await self._call(runstate.settle, self._ctx, self.run_id):
            self._work.exhausted = False
            return False
        await self._measure()
        return True

    async def _pause(self) -> None:
        draining = asyncio.create_task(self._work.drain(DRAIN_S))
        try:
            while not draining.done():
                await asyncio.wait([draining], timeout=LOOK_S)
                seen = await self._call(runstate.look, self._ctx, self.run_id)
                await self._take_over(seen)
                if seen.state == "cancelling":
                    await self._cancel()
                    return
                await self._measure()
            await draining
        finally:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)
        await self._writer.flushed(LAST_WORDS_S)
        await self._measure()
        await self._call(runstate.paused, self._ctx, self.run_id)

    async def _cancel(self) -> None:
        await self._finish_writing()
        while await self._call(runstate.skip_batch, self._ctx, self.run_id):
            pass
        await self._call(runstate.cancelled, self._ctx, self.run_id)
        await self._measure()

    async def _finish_writing(self) -> None:
        """Drop the requests (SGLang aborts them), give the samples back, and put finished results on the disk."""
        await self._work.drain(0)
        await self._writer.flushed(LAST_WORDS_S)

    async def _measure(self) -> None:
        self._measured = self._clock()
        self._progress = await self._call(
            write_progress, self._ctx, self.run_id, self._meter.rates(), self._work.active, self._progress
        )

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def _look_soon(self) -> None:
        self._looked = float("-inf")
        self._wake.set()

    async def _rest(self) -> None:
        """Until something ends, or it is time to look again."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
