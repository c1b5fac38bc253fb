"""Requests of one run: samples taken up ahead, sent where there is room, and what each answer means for its sample.

Everything is on one event loop. Nothing here decides what becomes of the run; that is the runner's affair.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from inference.backends.server.client import GenerateError
from inference.context import Context
from inference.runs.lanes import Lane, Lanes
from inference.runs.leases import lease
from inference.runs.outcomes import Ending, Work
from inference.runs.requests import MAX_SERVERS_LOST, Ask, ask_for, send, unsent
from inference.runs.resultrows import Lens
from inference.runs.writer import DISK_ERRORS, ResultWriter

log = structlog.get_logger(__name__)

AHEAD: Final = 256
"""Samples leased and rendered ahead of those in flight; more are taken up when half of them are left"""
LARGEST_LEASE: Final = 1024
BACKLOG: Final = 2048
"""Results waiting for the disk, above which nothing more is sent"""
ABORTS_S: Final = 10.0
LEASE_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Held:
    """One request in flight; `ticket` is the breaker's."""

    work: Work
    lane: Lane
    ask: Ask
    ticket: int


class Dispatcher:
    """The samples a runner holds.

    Args:
        ctx: the context.
        run_id: the run.
        lens: its settings, tokenizer and format.
        lanes: its backends.
        writer: takes the outcomes.
        executor: threads for what blocks.
        wake: called when something ended.
    """

    def __init__(
        self,
        ctx: Context,
        run_id: int,
        lens: Lens,
        lanes: Lanes,
        writer: ResultWriter,
        executor: Executor,
        wake: Callable[[], None],
    ) -> None:
        self._ctx = ctx
        self._run_id = run_id
        self._lens = lens
        self._lanes = lanes
        self._writer = writer
        self._executor = executor
        self._wake = wake
        self._ready: dict[tuple[int, ...], deque[Work]] = {}
        self._active: dict[asyncio.Task[None], _Held] = {}
        self._given_up: set[asyncio.Task[None]] = set()
        self._refill: asyncio.Task[None] | None = None
        self._lost: dict[int, set[tuple[int, int | None]]] = {}
        self.overrides: dict[int, dict[str, Any]] = {}
        """{generation: what its regenerate changed}"""
        self.exhausted = False
        """Whether nothing is pending, as far as is known"""
        self.crash: BaseException | None = None
        """What broke a task that must not break"""

    @property
    def active(self) -> int:
        """Requests in flight."""
        return len(self._active)

    @property
    def idle(self) -> bool:
        """Whether no sample is held, written or not."""
        return not (self._active or self._refill or any(self._ready.values()))

    def has_backend(self) -> bool:
        """Whether any backend that any sample may go to can be used."""
        return any(self._lanes.usable(self._allowed(number)) for number in (-1, *self.overrides))

    def left_out(self) -> bool:
        """Whether every backend that any sample may go to is left out for a while, by its breaker."""
        return all(self._lanes.left_out(self._allowed(number)) for number in (-1, *self.overrides))

    def step(self) -> None:
        """Send what there is room for, and take up more when little is left."""
        if len(self._writer) < BACKLOG:
            for allowed, queue in self._ready.items():
                while queue and (lane := self._lanes.pick(allowed)) is not None:
                    self._start(queue.popleft(), lane)
        waiting = sum(map(len, self._ready.values()))
        room = self._lanes.room()
        if self._refill is None and not self.exhausted and waiting <= AHEAD // 2 and room:
            wanted = max(AHEAD // 2, min(room + AHEAD - self.active - waiting, LARGEST_LEASE))
            self._refill = asyncio.create_task(self._take_up(wanted))
            self._refill.add_done_callback(self.ended)

    def drop_ended(self) -> None:
        """End the requests on servers whose process is gone: a connection can stand open for ever to nobody."""
        for task, held in list(self._active.items()):
            if held.lane.ended and task not in self._given_up:
                self._given_up.add(task)
                task.cancel()

    def release_ready(self) -> None:
        """Give back what was taken up and not sent."""
        for queue in self._ready.values():
            while queue:
                self._release(queue.popleft())

    async def drain(self, timeout_s: float) -> None:
        """Send nothing more; wait for what is in flight, at most so long, and give back what did not come."""
        self.exhausted = True
        if self._refill is not None:
            await asyncio.gather(self._refill, return_exceptions=True)
        self.release_ready()
        if self._active and timeout_s > 0:
            await asyncio.wait(self._active, timeout=timeout_s)
        if self._active:
            await self._abort_active()
        self.release_ready()

    async def close(self) -> None:
        """Drop everything as it is; the next runner finds the samples in flight and puts them back."""
        tasks = [*self._active, *([] if self._refill is None else [self._refill])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def ended(self, task: "asyncio.Task[None]") -> None:
        """A task's end: its lane has room again, and an error that nobody foresaw is kept for the runner."""
        known = self._active.pop(task, None)
        if known is not None:
            known.lane.active -= 1
            known.lane.connection.active -= 1
            known.lane.connection.breaker.dropped(known.ticket)  # where it has not been judged
            if task.cancelled() and task in self._given_up:
                self._unanswered(known.work, known.lane, _server_ended(known.lane))
            self._given_up.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crash = error
        self._wake()

    def _allowed(self, generation: int) -> tuple[int, ...]:
        chosen = self.overrides.get(generation, {}).get("backend_ids")
        return tuple(chosen) if chosen else self._lens.settings.backend_ids

    def _leasable(self) -> tuple[list[int] | None, list[int]]:
        """Generations to take only, and to leave out: samples whose backends are away are left for others to do."""
        blocked = [number for number in self.overrides if not self._lanes.usable(self._allowed(number))]
        if self._lanes.usable(self._lens.settings.backend_ids):
            return None, blocked
        own = [number for number, change in self.overrides.items() if change.get("backend_ids")]
        return [number for number in own if number not in blocked], blocked

    async def _take_up(self, count: int) -> None:
        only, without = self._leasable()
        task = partial(lease, self._ctx, self._run_id, self._lens, count, only=only, without=without)
        try:
            leased = await asyncio.get_running_loop().run_in_executor(self._executor, task)
        except DISK_ERRORS as error:
            log.warning("lease_failed", run_id=self._run_id, error=str(error))
            await asyncio.sleep(LEASE_AGAIN_S)
            return
        finally:
            self._refill = None
        self.exhausted = not len(leased)
        for work in leased.ready:
            self._ready.setdefault(self._allowed(work.generation), deque()).append(work)
        for work, prompted in leased.refused:
            self._writer.add(unsent(work, Ending.FAILED, prompted.error_code, prompted.error))

    def _start(self, work: Work, lane: Lane) -> None:
        change = self.overrides.get(work.generation, {}).get("sampling") or {}
        ask = ask_for(work, lane, self._lens.settings, change)
        if ask.refusal is not None:
            self._writer.add(unsent(work, Ending.FAILED, "prompt_too_long", ask.refusal))
            return
        lane.active += 1
        held = _Held(work, lane, ask, lane.connection.begin())
        task = asyncio.create_task(self._answer(held))
        self._active[task] = held
        task.add_done_callback(self.ended)

    async def _answer(self, held: _Held) -> None:
        work, lane = held.work, held.lane
        result = await send(work, lane, held.ask, self._lens.settings, held.ticket)
        if isinstance(result, GenerateError):
            self._unanswered(work, lane, result)
            return
        again = result.ending is Ending.TRIED and work.tried + 1 < self._lens.settings.tries
        if result.error_code == "weight_version_mismatch" and not lane.ours:
            lane.changed = result.weight_version
        if result.ending is Ending.TRIED and not again:
            result.ending = Ending.FAILED
        self._writer.add(result)
        if again:
            work.tried += 1
            work.number += 1
            self._put_first(work)

    def _unanswered(self, work: Work, lane: Lane, error: GenerateError) -> None:
        """The backend's affair: no attempt is spent."""
        log.info("backend_gave_no_answer", run_id=self._run_id, backend=lane.name, cause=error.kind)
        if error.kind == "busy":
            self._put_first(work)
        elif error.kind == "connection" and self._deaths(work, lane) >= MAX_SERVERS_LOST:
            message = f"The server died {MAX_SERVERS_LOST} times with this sample in flight, last: {error.message}"
            self._writer.add(unsent(work, Ending.FAILED, "server_lost", message))
        else:
            self._release(work)

    def _deaths(self, work: Work, lane: Lane) -> int:
        """How many lives of servers ended with this sample in flight."""
        lives = self._lost.setdefault(work.sample_id, set())
        lives.add((lane.backend_id, lane.start_id))
        return len(lives)

    def _put_first(self, work: Work) -> None:
        self._ready.setdefault(self._allowed(work.generation), deque()).appendleft(work)

    def _release(self, work: Work) -> None:
        self._writer.add(unsent(work, Ending.RELEASED))
        self.exhausted = False

    async def _abort_active(self) -> None:
        """Drop the requests; an answer that is complete by then still counts, the others are pending again."""
        holders = [(task, held) for task, held in self._active.items() if task not in self._given_up]
        for task, _ in holders:
            task.cancel()
        await asyncio.gather(*self._active, return_exceptions=True)
        dropped = [held for task, held in holders if task.cancelled()]
        for held in dropped:
            self._release(held.work)
        aborts = (held.lane.connection.client.abort(held.ask.rid) for held in dropped)
        try:
            async with asyncio.timeout(ABORTS_S):
                await asyncio.gather(*aborts, return_exceptions=True)
        except TimeoutError:
            log.info("aborts_unanswered", run_id=self._run_id, count=len(dropped))


def _server_ended(lane: Lane) -> GenerateError:
    return GenerateError("connection", None, f"The process of backend {lane.name} ended with the request in flight.")
