"""The keeper of one managed server: what is desired against what is seen, one small step at a time.

    stopped → starting → loading → warming_up → ready ⇄ unresponsive
                 any of these → backoff → starting …   (a crash; after the last try, or where a retry is senseless: failed)
    ready → draining → stopping → stopped;  before ready, or unresponsive: stopping → stopped
    unknown: its process was on another machine; only a person leads out of it

The same step serves at boot, on the timer, on a user's action and on a process's end. Busy is not dead: nothing but a
person, a start-up limit of theirs, or a port that can never be bound makes it kill a process that lives.
"""

import asyncio
import time
from typing import Any

from db.errors import DomainError
from db.tables import Backend, BackendStart
from db.types import now
from inference.backends.server.readiness import Finding
from inference.backends.supervision.adoption import adopted_life, place_of
from inference.backends.supervision.endings import after_crash, after_stop, clear_away
from inference.backends.supervision.launching import Plan, new_life, plan_start, spawn
from inference.backends.supervision.life import Life
from inference.backends.supervision.records import PortsTaken
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.sentences import named
from inference.backends.supervision.stopping import Ending
from inference.backends.supervision.surroundings import Surroundings
from inference.backends.supervision.tending import Tending
from inference.backends.supervision.watching import Watch

_ALIVE = ("starting", "loading", "warming_up", "ready", "unresponsive", "draining", "stopping")
_PICKS = 5
"""How often ports are picked anew where other starts took them meanwhile"""


class ManagedKeeper:
    """Keeps one managed backend.

    Args:
        backend_id: which.
        around: the settings, the database and how patient to be.
    """

    def __init__(self, backend_id: int, around: Surroundings) -> None:
        self._id = backend_id
        self._around = around
        self._records = around.records
        self._reporter = Reporter(around.records, backend_id, around.policy.refresh_s)
        self._tending: Tending | None = None
        self._recovered = self._woken = False
        self.next_look = 0.0
        """monotonic"""

    async def step(self, row: Backend) -> None:
        """Look once, and do what is due."""
        self._woken = False
        if not self._recovered:
            await self._recover(row)
            self._recovered = True
        if self._tending is not None:
            await self._tend(row, self._tending)
        elif row.observed_state == "unknown":
            await self._out_of_sight(row)
        else:
            await self._at_rest(row)
        policy = self._around.policy
        steady = self._tending is None or self._tending.steady
        self.next_look = 0.0 if self._woken else _next(policy.steady_look_s if steady else policy.moving_look_s)

    async def close(self) -> None:
        """Let go: the server runs on, to be adopted later."""
        if self._tending is not None:
            await self._release(self._tending.life)

    async def _recover(self, row: Backend) -> None:
        """Take back what an earlier supervisor left, or find that it is gone."""
        start = await asyncio.to_thread(self._records.last_start, row)
        if start is None or start.ended_at is not None:
            if row.observed_state not in {"stopped", "failed", "backoff"}:
                await self._reporter.report("stopped", "No process was running when Draftmill started.")
                row.observed_state = "stopped"
            return
        if place_of(start) == "elsewhere":
            await self._lose_sight(row, start)
            return
        life = await asyncio.to_thread(adopted_life, row, start)
        self._begin(life)
        if life.while_away:
            if row.observed_state == "unknown":
                await self._reporter.report("unresponsive", "It can be looked for again, and its process is gone.")
            return
        message = f"Taken back: process {life.process.identity.pid} was running when Draftmill started."
        await asyncio.to_thread(self._records.event, self._id, "adopted", message, life.start_id)
        self._reporter.note(Finding("process", True, message))
        if row.observed_state in {"draining", "stopping"}:
            await self._ending(life).resume(row)
        elif row.observed_state not in _ALIVE:
            row.observed_state = "loading" if row.observed_state == "unknown" else "starting"
            await self._reporter.report(row.observed_state, message)

    async def _lose_sight(self, row: Backend, start: BackendStart) -> None:
        message = (
            f"Unknown: it was started on {start.host or 'another machine'}, whose processes cannot be seen from here. It is "
            "neither started again nor stopped. If that machine or that server is gone, say so with “forget”."
        )
        self._reporter.note(Finding("process", None, f"Process {start.pid or '?'} was on {start.host}."))
        await self._reporter.report("unknown", message)
        row.observed_state = "unknown"

    async def _out_of_sight(self, row: Backend) -> None:
        if not row.forget_requested:
            return
        message = "Forgotten: a person said that the server, which could not be seen from here, is gone."
        ended = {"ended_at": now(), "ending": message}
        columns: dict[str, Any] = {"forget_requested": False, "desired_state": "stopped", "restart_requested": False}
        self._reporter.clear()
        await self._reporter.report("stopped", message, start_id=row.start_id, start=ended, **columns)

    async def _at_rest(self, row: Backend) -> None:
        if row.desired_state != "running":
            if row.observed_state != "stopped" or row.kill_requested:
                message = "Stopped: no process is running."
                columns: dict[str, Any] = {"retry_at": None, "kill_requested": False, "crashes": 0}
                await self._reporter.report("stopped", message, **columns)
            return
        if not row.restart_requested:
            waiting = row.observed_state == "backoff" and row.retry_at is not None and row.retry_at > now()
            if waiting or row.observed_state == "failed":
                return
        await self._start(row, crashes=0 if row.restart_requested else row.crashes)

    async def _start(self, row: Backend, crashes: int) -> None:
        try:
            begun = await self._written_down(row, crashes)
        except (DomainError, ValueError, OSError) as error:
            await self._refuse(str(error))
            return
        if begun is None:
            self._recovered = (
                False  # should it be another's start and not a deletion, that is looked for and taken back
            )
            return
        plan, start_id = begun
        try:
            process = await asyncio.to_thread(spawn, plan)
        except OSError as error:
            plan.new.log.with_suffix(".yaml").unlink(missing_ok=True)
            ended = {"ended_at": now(), "ending": str(error)}
            await self._refuse(f"the process cannot be started ({error}).", start_id=start_id, start=ended)
            return
        self._begin(new_life(plan, start_id, process))  # before anything else can fail: it must not be started twice

    async def _written_down(self, row: Backend, crashes: int) -> tuple[Plan, int] | None:
        """A start that stands in the database with its ports, its process yet to come; None as for `begin_start`.

        Raises:
            DomainError, ValueError, OSError: it cannot work.
        """
        number = await asyncio.to_thread(self._records.next_number, self._id)
        picks = 0
        while True:
            ports = await asyncio.to_thread(self._records.ports_in_use)
            plan = await asyncio.to_thread(plan_start, self._around.settings, row, number, ports)
            message = f"Starting (start {number}, port {plan.new.ports.http})."
            try:
                start_id = await asyncio.to_thread(
                    self._records.begin_start,
                    self._id,
                    plan.new,
                    after=row.start_id,
                    crashes=crashes,
                    message=message,
                )
            except PortsTaken:
                picks += 1
                if picks >= _PICKS:
                    raise OSError("the ports picked for it were given to other starts, again and again") from None
                continue
            self._reporter.clear()
            if start_id is None:
                plan.new.log.with_suffix(".yaml").unlink(missing_ok=True)
                return None
            return plan, start_id

    async def _refuse(self, sentence: str, **columns: Any) -> None:
        """A start that cannot work: failed, before any process came to be."""
        error = {"summary": sentence, "cure": "", "lines": []}
        self._reporter.clear()
        columns |= {"error": error, "restart_requested": False, "retry_at": None}
        await self._reporter.report("failed", f"Not started: {sentence}", **columns)

    def _begin(self, life: Life) -> None:
        around = self._around
        watch = Watch(life, self._id, around, self._reporter, self._wake)
        self._tending = Tending(life, watch, self._ending(life), around, self._reporter)
        if (descriptor := life.process.pidfd) is not None:
            loop = asyncio.get_running_loop()

            def ended() -> None:
                loop.remove_reader(descriptor)
                self._wake()

            loop.add_reader(descriptor, ended)

    def _ending(self, life: Life) -> Ending:
        return Ending(life, self._around.policy, self._reporter, self._wake)

    def _wake(self) -> None:
        self._woken = True
        self.next_look = 0.0
        self._around.wake()

    async def _release(self, life: Life) -> None:
        if life.process.pidfd is not None:
            asyncio.get_running_loop().remove_reader(life.process.pidfd)
        await life.close()
        self._tending = None

    async def _tend(self, row: Backend, tending: Tending) -> None:
        life = tending.life
        if life.process.alive():
            await tending.step(row)
        else:
            await self._ended(row, life)

    async def _ended(self, row: Backend, life: Life) -> None:
        """The main process is gone."""
        await life.drop_tasks()
        end = await clear_away(life, self._around.policy, self._reporter)
        if end.left:  # stays in `stopping`, and the next step tries again
            message = f"Stopping: the main process is gone, but {named(end.left)} lives on."
            await self._reporter.report("stopping", message)
            return
        life.drop_key_file()
        await self._release(life)
        self._around.book.drop(self._id)
        stopped = life.stopping is not None
        outcome = after_stop(life, end) if stopped else after_crash(row, life, end, self._around.policy)
        self._reporter.clear()
        self._reporter.note(Finding("process", None if stopped else False, end.proof))
        await self._reporter.report(outcome.state, outcome.message, **outcome.columns)


def _next(every_s: float) -> float:
    """The next of the moments that all keepers share, so that one turn of the loop serves all that have nothing to do."""
    return (time.monotonic() // every_s + 1) * every_s
