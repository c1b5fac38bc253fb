"""The keeper of one managed server: what is desired against what is seen, one small step at a time.

    stopped → starting → loading → warming_up → ready ⇄ unresponsive
                 any of these → backoff → starting …   (a crash; after the last try, or where a retry is senseless: failed)
    ready → draining → stopping → stopped;  before ready: stopping → stopped

The same step serves at boot, on the timer, on a user's action and on a process's end. Busy is not dead: nothing but a
person, a start-up limit of theirs, or a port that can never be bound makes it kill a process that lives.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from db.errors import DomainError
from db.tables import Backend
from db.types import now
from inference.backends.host.process import wait_gone
from inference.backends.logs.phases import STATE_OF
from inference.backends.server.readiness import Finding
from inference.backends.supervision.endings import after_crash, after_stop, clear_away, startup_limit
from inference.backends.supervision.life import (
    Life,
    Stopping,
    adopted_life,
    find_process,
    new_life,
    plan_start,
    remains,
    spawn,
)
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.records import Records
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.sentences import named, ready_sentence, starting_sentence
from inference.backends.supervision.stopping import begin_stop, go_on_stopping
from inference.backends.supervision.watching import Prober, Watch
from inference.settings import Settings

_UPWARD = ("starting", "loading", "warming_up")
_ALIVE = (*_UPWARD, "ready", "unresponsive")
_REMEMBER_S = 5.0
_REMEMBER_READY_S = 60.0


class ManagedKeeper:
    """Keeps one managed backend.

    Args:
        backend_id: which.
        settings: where logs lie, which interpreter.
        records: the database.
        policy: how patient.
        prober: makes the fidelity probe.
        wake: called when something happened that deserves a step at once.
    """

    def __init__(
        self,
        backend_id: int,
        settings: Settings,
        records: Records,
        policy: Policy,
        prober: Prober,
        wake: Callable[[], None],
    ) -> None:
        self._id = backend_id
        self._settings = settings
        self._records = records
        self._policy = policy
        self._prober = prober
        self._wake = wake
        self._reporter = Reporter(records, backend_id, policy.refresh_s)
        self._life: Life | None = None
        self._watch: Watch | None = None
        self._recovered = False
        self._next_remember = 0.0
        self._shown_problem: object = None

    async def step(self, row: Backend) -> None:
        """Look once, and do what is due."""
        if not self._recovered and self._life is None:
            await self._recover(row)
            self._recovered = True
        elif self._life is None or self._watch is None:
            await self._at_rest(row)
        else:
            await self._tend(row, self._life, self._watch)

    async def close(self) -> None:
        """Let go: the server runs on, to be adopted later."""
        if self._life is not None:
            await self._release(self._life)

    async def _recover(self, row: Backend) -> None:
        """Take back what an earlier supervisor left, or write down what became of it."""
        start = await asyncio.to_thread(self._records.last_start, row)
        if start is None or start.ended_at is not None:
            if row.observed_state not in {"stopped", "failed", "backoff"}:
                await self._reporter.report("stopped", "No process was running when Draftmill started.")
            return
        process = await asyncio.to_thread(find_process, start)
        life = adopted_life(row, start, process or remains(start))
        await asyncio.to_thread(life.read_log)
        if row.observed_state in {"draining", "stopping"}:
            life.stopping = Stopping(time.monotonic(), "SIGTERM, begun before Draftmill was restarted")
        if process is None:
            await self._ended(row, life, while_away=True)
            return
        self._begin(life)
        message = f"Taken back: process {process.identity.pid} was running when Draftmill started."
        await asyncio.to_thread(self._records.event, self._id, "adopted", message, life.start_id)
        self._reporter.note(Finding("process", True, message))
        if life.stopping is not None:
            process.terminate()
        elif row.observed_state not in _ALIVE:
            await self._reporter.report("starting", message)

    async def _at_rest(self, row: Backend) -> None:
        if row.desired_state != "running":
            if row.observed_state != "stopped":
                await self._reporter.report("stopped", "Stopped: no process is running.", retry_at=None, phase=None)
            return
        if not row.restart_requested:
            waiting = row.observed_state == "backoff" and row.retry_at is not None and row.retry_at > now()
            if waiting or row.observed_state == "failed":
                return
        await self._start(row, crashes=0 if row.restart_requested else row.crashes)

    async def _start(self, row: Backend, crashes: int) -> None:
        try:
            number = await asyncio.to_thread(self._records.next_number, self._id)
            ports = await asyncio.to_thread(self._records.ports_in_use)
            plan = await asyncio.to_thread(plan_start, self._settings, row, number, ports)
        except (DomainError, ValueError, OSError) as error:
            await self._refuse(str(error))
            return
        self._reporter.clear()
        message = f"Starting (start {number}, port {plan.new.port})."
        start_id = await asyncio.to_thread(
            self._records.begin_start, self._id, plan.new, crashes=crashes, message=message
        )
        if start_id is None:
            return
        try:
            process = await asyncio.to_thread(spawn, plan)
        except OSError as error:
            plan.new.log.with_suffix(".yaml").unlink(missing_ok=True)
            ended = {"ended_at": now(), "ending": str(error)}
            await self._refuse(f"the process cannot be started ({error}).", start_id=start_id, start=ended)
            return
        self._begin(new_life(plan, start_id, process))  # before anything else can fail: it must not be started twice

    async def _refuse(self, sentence: str, **columns: Any) -> None:
        """A start that cannot work: failed, before any process came to be."""
        error = {"summary": sentence, "cure": "", "lines": []}
        self._reporter.clear()
        columns |= {"error": error, "restart_requested": False, "retry_at": None}
        await self._reporter.report("failed", f"Not started: {sentence}", **columns)

    def _begin(self, life: Life) -> None:
        self._life = life
        self._watch = Watch(life, self._id, self._policy, self._records, self._reporter, self._prober, self._wake)
        self._next_remember = 0.0
        if (descriptor := life.process.pidfd) is not None:
            loop = asyncio.get_running_loop()

            def ended() -> None:
                loop.remove_reader(descriptor)
                self._wake()

            loop.add_reader(descriptor, ended)

    async def _release(self, life: Life) -> None:
        if life.process.pidfd is not None:
            asyncio.get_running_loop().remove_reader(life.process.pidfd)
        await life.close()
        self._life = self._watch = None

    async def _tend(self, row: Backend, life: Life, watch: Watch) -> None:
        await asyncio.to_thread(life.read_log)
        if not life.process.alive():
            await self._ended(row, life)
            return
        if not life.recorded:
            await asyncio.to_thread(self._records.spawned, life.start_id, life.process.identity)
            life.recorded = True
        self._reporter.note(Finding("process", True, f"Process {life.process.identity.pid} is alive."))
        if time.monotonic() >= self._next_remember:
            self._next_remember = time.monotonic() + (_REMEMBER_READY_S if life.ever_ready else _REMEMBER_S)
            await asyncio.to_thread(life.process.remember)
        if life.stopping is None and (row.desired_state != "running" or row.restart_requested):
            await begin_stop(life, self._policy, self._reporter, self._wake)
        elif life.stopping is not None:
            await go_on_stopping(life, life.stopping, self._policy, self._reporter)
        elif life.ever_ready:
            await self._report_ready(row, life, watch)
            watch.schedule(row)
        else:
            await self._report_starting(row, life, watch)
            watch.schedule(row)

    async def _report_starting(self, row: Backend, life: Life, watch: Watch) -> None:
        life.problem = life.problem or await asyncio.to_thread(startup_limit, life)
        phase = life.tracker.phase
        self._reporter.note(Finding("log", life.problem is None or None, f"Last stage in the log: {phase}."))
        state = STATE_OF[phase.name]
        if row.observed_state in _UPWARD:  # evidence leads upward only: what was seen is not unseen
            state = max(state, row.observed_state, key=_UPWARD.index)
        columns: dict[str, Any] = {}
        if life.problem is not self._shown_problem and life.problem is not None:
            columns["error"] = life.problem.to_json()
        self._shown_problem = life.problem
        await self._reporter.report(state, starting_sentence(life, watch.proof), phase.to_json(), **columns)
        if life.problem is not None and life.problem.code in {"startup_limit", "port_in_use"}:
            await asyncio.to_thread(wait_gone, life.process, self._policy.kill_deadline_s)
            self._wake()

    async def _report_ready(self, row: Backend, life: Life, watch: Watch) -> None:
        tokens_at = life.tracker.last_tokens_at
        self._reporter.note(Finding("log", True, f"Last stage in the log: {life.tracker.phase}."))
        if tokens_at is not None:
            self._reporter.note(Finding("tokens", True, f"Tokens last flowed at {tokens_at:%H:%M:%S} UTC, by the log."))
        columns: dict[str, Any] = {}
        if row.observed_state not in {"ready", "unresponsive"}:
            life.drop_key_file()
            proof = watch.proof
            facts = (proof.facts or {}) if proof is not None else {}
            columns = {"error": None, "start_id": life.start_id, "server_info": facts}
            columns["version"] = facts.get("version")
            columns["start"] = {"ready_at": now(), "version": facts.get("version")}
            if proof is not None and proof.model is not None:
                columns["model"] = proof.model
        elif row.crashes and time.monotonic() - (life.ready_since or 0.0) > self._policy.steady_s:
            columns = {"crashes": 0}
        state, message = ready_sentence(life)
        await self._reporter.report(state, message, life.tracker.phase.to_json(), **columns)

    async def _ended(self, row: Backend, life: Life, *, while_away: bool = False) -> None:
        """The main process is gone."""
        await life.drop_tasks()
        end = await clear_away(life, self._policy, self._reporter)
        if (
            end.left and life.stopping is not None and self._life is life
        ):  # stays in `stopping`, and the next step tries again
            await self._reporter.report(
                "stopping", f"Stopping: the main process is gone, but {named(end.left)} lives on."
            )
            return
        life.drop_key_file()
        await self._release(life)
        if life.stopping is not None:
            outcome = after_stop(life, end)
        else:
            outcome = after_crash(row, life, end, self._policy, while_away)
        self._reporter.clear()
        self._reporter.note(Finding("process", None if life.stopping is not None else False, end.proof))
        await self._reporter.report(outcome.state, outcome.message, **outcome.columns)
