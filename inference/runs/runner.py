"""The runner: takes a run's pending samples up, sends them, verifies the answers, and hands results to the writer.

It knows work, backends and a clock, and changes the database through guarded updates only, so that it can be killed at any
moment: what is on the disk counts, what was in flight is done again. Everything here runs on one event loop; what blocks
(rendering, the database, looking at answers) runs in the executor's threads.

    pending ──lease──▶ in flight, rendered ──lane──▶ request ──▶ outcome ──writer──▶ done | failed | pending again
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

import structlog

from inference.backends.client import GenerateError
from inference.context import Context
from inference.quality.guard import RunGuard, Trip
from inference.runs import runstate
from inference.runs.lanes import ClientPool, Lane, Lanes
from inference.runs.leases import lease
from inference.runs.outcomes import Ending, Work
from inference.runs.planner import plan_batch
from inference.runs.progress import EVERY_S, Meter, write_progress
from inference.runs.requests import MAX_SERVERS_LOST, Ask, ask_for, send, unsent
from inference.runs.results import Written
from inference.runs.writer import DISK_ERRORS, ResultWriter

log = structlog.get_logger(__name__)

LOOK_S: Final = 0.25
"""How often the run's and the backends' rows are looked at"""
AHEAD: Final = 128
"""Samples leased and rendered ahead of those in flight"""
BACKLOG: Final = 2048
"""Results waiting for the disk, above which nothing more is sent"""
DRAIN_S: Final = 600.0
"""How long a pause waits for what is in flight before it gives it back"""
CANCEL_S: Final = 10.0
LAST_WORDS_S: Final = 30.0
"""How long a stopping worker tries to put finished results on the disk"""


class Runner:
    """One run, until it is settled, paused or told to stop.

    Args:
        ctx: the context.
        run_id: the run.
        clients: the worker's clients.
        executor: threads for what blocks.
        clock: monotonic seconds.
    """

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
        self._ready: dict[tuple[int, ...], deque[Work]] = {}
        self._active: dict[asyncio.Task[None], tuple[Work, Lane, Ask]] = {}
        self._refill: asyncio.Task[None] | None = None
        self._exhausted = False
        self._wake = asyncio.Event()
        self._lost: dict[int, set[tuple[int, int | None]]] = {}
        self._generation = -1
        self._guard: RunGuard | None = None
        self._trip: Trip | None = None
        self._crash: BaseException | None = None
        self._meter = Meter(clock)
        self._looked = self._measured = float("-inf")
        self._planned = False
        self._progress: dict[str, Any] = {}
        self._said: tuple[str, str] | None = None
        self._overrides: dict[int, dict[str, Any]] = {}
        self.refused_results = 0
        """Results that came after their sample had been put back or given away, and were dropped"""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until the run needs no more of it, or `stop` is set (then what is finished is written, and no more).

        Raises:
            sqlalchemy.exc.SQLAlchemyError, OSError, sqlite3.Error: the database is not there; nothing is lost by it.
            inference.runs.runstate.RunBroken: the run cannot be worked on; its sentence says why.
        """
        lens = await self._call(runstate.open_run, self._ctx, self.run_id)
        if lens is None:
            return
        self._lens = lens
        self._lanes = Lanes(self._pool, lens.settings.concurrency)
        self._writer = ResultWriter(self._ctx, self.run_id, lens, self._executor, self._on_written)
        writing = asyncio.create_task(self._writer.run())
        writing.add_done_callback(self._ended)
        try:
            await self._work(stop)
        finally:
            for task in self._active:
                task.cancel()
            await asyncio.gather(*self._active, return_exceptions=True)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    def wake(self) -> None:
        """Look again now: something changed."""
        self._wake.set()

    async def _work(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if self._crash is not None:
                raise self._crash
            if self._clock() - self._looked >= LOOK_S and not await self._look():
                return
            if self._clock() - self._measured >= EVERY_S:
                await self._measure()
            if self._trip is not None or self._writer.trouble is not None:
                await self._stop_for_cause()
                continue
            self._dispatch()
            if await self._finished():
                return
            await self._rest()
        await self._leave()

    async def _look(self) -> bool:
        """Take over how things stand and do what is wanted; False where the run needs no more of us."""
        seen = await self._call(runstate.look, self._ctx, self.run_id)
        self._looked = self._clock()
        self._take_over(seen)
        if seen.generation != self._generation:
            self._guard = await self._new_guard()
            self._generation = seen.generation
        if seen.state == "pausing":
            await self._pause()
            return False
        if seen.state == "cancelling":
            await self._cancel()
            return False
        if seen.state not in {"queued", "running"}:
            await self._drain(0)
            await self._writer.flushed(LAST_WORDS_S)
            return False
        if not self._planned:
            self._planned = not await self._call(plan_batch, self._ctx, self.run_id, self._lens.settings)
            self._look_soon()
            return True
        await self._say(seen)
        return True

    def _look_soon(self) -> None:
        self._looked = float("-inf")
        self._wake.set()

    def _take_over(self, seen: runstate.Seen) -> None:
        self._lanes.update(seen.backends)
        self._overrides = seen.overrides
        self._exhausted = self._planned and seen.pending == 0

    async def _new_guard(self) -> RunGuard | None:
        thresholds = self._lens.settings.guard
        if thresholds is None:
            return None
        muted = await self._call(runstate.muted_codes, self._ctx, self.run_id)
        return RunGuard(thresholds, self._lens.bound.thinks, muted)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    async def _rest(self) -> None:
        """Until something ends, or it is time to look again."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _allowed(self, generation: int) -> tuple[int, ...]:
        chosen = self._overrides.get(generation, {}).get("backend_ids")
        return tuple(chosen) if chosen else self._lens.settings.backend_ids

    def _dispatch(self) -> None:
        """Send what there is room for, and take up more when little is left."""
        if len(self._writer) < BACKLOG:
            at = self._clock()
            for allowed, queue in self._ready.items():
                while queue and (lane := self._lanes.pick(allowed, at)) is not None:
                    self._start(queue.popleft(), lane)
        waiting = sum(map(len, self._ready.values()))
        if self._refill is None and not self._exhausted and waiting < AHEAD and self._lanes.room():
            self._refill = asyncio.create_task(self._take_up(self._lanes.room() + AHEAD - len(self._active) - waiting))
            self._refill.add_done_callback(self._ended)

    async def _take_up(self, count: int) -> None:
        blocked = [number for number in self._overrides if not self._lanes.usable(self._allowed(number))]
        only = None
        if not self._lanes.usable(self._lens.settings.backend_ids):
            only = [
                number
                for number in self._overrides
                if number not in blocked and self._overrides[number].get("backend_ids")
            ]
        try:
            leased = await self._call(
                lambda: lease(
                    self._ctx, self.run_id, self._lens, max(AHEAD // 2, min(count, 1024)), only=only, without=blocked
                )
            )
        except DISK_ERRORS as error:
            log.warning("lease_failed", run_id=self.run_id, error=str(error))
            await asyncio.sleep(1.0)
            return
        finally:
            self._refill = None
        self._exhausted = not len(leased)
        for work in leased.ready:
            self._ready.setdefault(self._allowed(work.generation), deque()).append(work)
        for work, prompted in leased.refused:
            self._writer.add(unsent(work, Ending.FAILED, prompted.error_code, prompted.error))
        self._wake.set()

    def _start(self, work: Work, lane: Lane) -> None:
        change = self._overrides.get(work.generation, {}).get("sampling") or {}
        ask = ask_for(work, lane, self._lens.settings, change)
        if ask.refusal is not None:
            self._writer.add(unsent(work, Ending.FAILED, "prompt_too_long", ask.refusal))
            return
        lane.active += 1
        lane.connection.active += 1
        task = asyncio.create_task(self._answer(work, lane, ask))
        self._active[task] = (work, lane, ask)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        known = self._active.pop(task, None)
        if known is not None:
            known[1].active -= 1
            known[1].connection.active -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crash = error
        self._wake.set()

    async def _answer(self, work: Work, lane: Lane, ask: Ask) -> None:
        result = await send(work, lane, ask, self._lens.settings)
        if isinstance(result, GenerateError):
            self._unanswered(work, lane, result)
        elif result.ending is Ending.TRIED and work.tried + 1 >= self._lens.settings.tries:
            result.ending = Ending.FAILED
            self._writer.add(result)
        elif result.ending is Ending.TRIED:
            self._writer.add(result)
            work.tried += 1
            work.number += 1
            self._put_first(work)
        else:
            self._writer.add(result)

    def _unanswered(self, work: Work, lane: Lane, error: GenerateError) -> None:
        """The backend's affair: no attempt is spent."""
        if error.kind == "unauthorized":
            lane.refused = f"Backend {lane.name} refuses our key: {error.message}"
        pause = lane.back_off(self._clock())
        log.info("backend_backs_off", run_id=self.run_id, backend=lane.name, cause=error.kind, pause_s=round(pause, 2))
        if error.kind == "busy":
            self._put_first(work)
            return
        if error.kind == "connection":
            deaths = self._lost.setdefault(work.sample_id, set())
            deaths.add((lane.backend_id, lane.start_id))
            if len(deaths) >= MAX_SERVERS_LOST:
                self._writer.add(
                    unsent(
                        work,
                        Ending.FAILED,
                        "server_lost",
                        f"The server died {len(deaths)} times with this sample in flight, last: {error.message}",
                    )
                )
                return
        self._release(work)

    def _put_first(self, work: Work) -> None:
        self._ready.setdefault(self._allowed(work.generation), deque()).appendleft(work)

    def _release(self, work: Work) -> None:
        self._writer.add(unsent(work, Ending.RELEASED))
        self._exhausted = False

    def _release_ready(self) -> None:
        for queue in self._ready.values():
            while queue:
                self._release(queue.popleft())

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

    async def _say(self, seen: runstate.Seen) -> None:
        """Keep the run's state and sentence up with what is happening."""
        if any(self._lanes.usable(self._allowed(number)) for number in (-1, *self._overrides)):
            wanted = None
        else:
            if not self._active:
                self._release_ready()
            text = " ".join(self._lanes.whys.values()) or "None of the run's backends exists any more."
            wanted = ("no_backend", f"Waiting for a backend. {text}")
        if seen.state == "queued" and wanted is None:
            await self._call(runstate.start, self._ctx, self.run_id)
        if wanted != self._said or (wanted is None and seen.reason_kind == "no_backend"):
            await self._call(runstate.say, self._ctx, self.run_id, wanted)
            self._said = wanted

    async def _measure(self) -> None:
        self._measured = self._clock()
        try:
            self._progress = await self._call(
                write_progress, self._ctx, self.run_id, self._meter.rates(), len(self._active), self._progress
            )
        except DISK_ERRORS as error:
            log.warning("progress_not_written", run_id=self.run_id, error=str(error))

    async def _finished(self) -> bool:
        if not self._exhausted or self._active or self._refill or any(self._ready.values()):
            return False
        if self._writer.busy:
            self._writer.hurry()
            return False
        done = await self._call(runstate.settle, self._ctx, self.run_id)
        if done:
            await self._measure()
        else:
            self._exhausted = False
        return bool(done)

    async def _stop_for_cause(self) -> None:
        """The guard tripped, or the disk refuses results: pause, and say why."""
        if self._trip is not None:
            kind, reason, detail = (
                "guard",
                self._trip.message,
                {"code": self._trip.code, "samples": list(self._trip.sample_ids)},
            )
        else:
            kind, reason, detail = "error", self._writer.trouble or "", {}
        self._guard = self._trip = None
        self._look_soon()
        try:
            await self._call(runstate.stop_for, self._ctx, self.run_id, kind, reason, detail)
        except DISK_ERRORS as error:
            log.warning("pause_not_written", run_id=self.run_id, error=str(error))
            await asyncio.sleep(1.0)

    async def _drain(self, timeout_s: float) -> None:
        """Send nothing more; wait for what is in flight, then give back what did not come, and write all of it."""
        self._exhausted = True
        if self._refill is not None:
            await asyncio.gather(self._refill, return_exceptions=True)
        self._release_ready()
        if self._active and timeout_s > 0:
            await asyncio.wait(self._active, timeout=timeout_s)
        if self._active:
            await self._abort_active()
        self._release_ready()

    async def _abort_active(self) -> None:
        """Drop the requests; an answer that is complete by then still counts, the others are pending again."""
        holders = list(self._active.items())
        for task, _ in holders:
            task.cancel()
        await asyncio.gather(*(task for task, _ in holders), return_exceptions=True)
        dropped = [(work, lane, ask) for task, (work, lane, ask) in holders if task.cancelled()]
        for work, _, _ in dropped:
            self._release(work)
        aborts = (lane.connection.client.abort(ask.rid) for _, lane, ask in dropped)
        try:
            async with asyncio.timeout(CANCEL_S):
                await asyncio.gather(*aborts, return_exceptions=True)
        except TimeoutError:
            log.info("aborts_unanswered", run_id=self.run_id, count=len(dropped))

    async def _pause(self) -> None:
        draining = asyncio.create_task(self._drain(DRAIN_S))
        while not draining.done():
            await asyncio.wait([draining], timeout=LOOK_S)
            seen = await self._call(runstate.look, self._ctx, self.run_id)
            if seen.state == "cancelling":
                draining.cancel()
                await asyncio.gather(draining, return_exceptions=True)
                return await self._cancel()
            await self._measure()
        await draining
        await self._writer.flushed(LAST_WORDS_S)
        await self._measure()
        await self._call(runstate.paused, self._ctx, self.run_id)
        return None

    async def _cancel(self) -> None:
        await self._drain(0)
        await self._writer.flushed(LAST_WORDS_S)
        while await self._call(runstate.skip_batch, self._ctx, self.run_id):
            pass
        await self._call(runstate.cancelled, self._ctx, self.run_id)
        await self._measure()

    async def _leave(self) -> None:
        """The worker stops: requests are dropped (SGLang aborts them), finished results go to the disk."""
        await self._drain(0)
        await self._writer.flushed(LAST_WORDS_S)
