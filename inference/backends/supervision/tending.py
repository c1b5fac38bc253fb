"""A look at a server whose main process lives: what its log has new, what is due to be asked, what people are to read."""

import asyncio
import time
from typing import Any

from db.tables import Backend
from db.types import now
from inference.backends.host.process import wait_gone
from inference.backends.logs.capping import cap
from inference.backends.logs.diagnosis import Diagnosis
from inference.backends.logs.phases import STATE_OF
from inference.backends.server.readiness import Finding
from inference.backends.supervision.endings import startup_limit
from inference.backends.supervision.life import OURS, Life
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.sentences import starting_sentence
from inference.backends.supervision.stopping import Ending
from inference.backends.supervision.surroundings import Surroundings
from inference.backends.supervision.watching import Watch

_UPWARD = ("starting", "loading", "warming_up")
MIB = 1024 * 1024
_REMEMBER_S = 5.0
_REMEMBER_READY_S = 300.0


class Tending:
    """Tends one life, from its spawning or adoption to the end of its main process.

    Args:
        life: whose.
        watch: what is asked of it beside the steps.
        ending: its ordered end, once that is wanted.
        around: database and patience.
        reporter: what is told.
    """

    def __init__(self, life: Life, watch: Watch, ending: Ending, around: Surroundings, reporter: Reporter) -> None:
        self.life = life
        self._watch = watch
        self._ending = ending
        self._around = around
        self._records = around.records
        self._reporter = reporter
        self._next_remember = self._next_cap = 0.0
        self._shown_problem: Diagnosis | None = None
        self._shown_phase = ""

    @property
    def steady(self) -> bool:
        """Whether it needs to be looked at but seldom."""
        return self.life.ever_ready and self.life.stopping is None

    async def step(self, row: Backend) -> None:
        """Look once, and do what is due. The main process lives, or did a moment ago."""
        life = self.life
        if life.log_grew():
            await asyncio.to_thread(self._take_in_log)
        if not life.recorded:
            await asyncio.to_thread(self._records.spawned, life.start_id, life.process.identity)
            life.recorded = True
        self._reporter.note(Finding("process", True, f"Process {life.process.identity.pid} is alive."))
        if time.monotonic() >= self._next_remember:
            self._next_remember = time.monotonic() + (_REMEMBER_READY_S if life.ever_ready else _REMEMBER_S)
            await asyncio.to_thread(life.remember)
        if life.stopping is not None:
            await self._ending.go_on(row, life.stopping)
        elif row.desired_state != "running" or row.restart_requested:
            await self._ending.begin(row)
        elif life.ever_ready:
            await self._report_ready(row)
            self._watch.schedule(row)
        else:
            await self._report_starting(row)
            self._watch.schedule(row)

    def _take_in_log(self) -> None:
        self.life.read_log()
        if time.monotonic() >= self._next_cap:
            self._next_cap = time.monotonic() + self._around.policy.cap_s
            cap(self.life.log, self._around.settings.log_max_mb * MIB)

    async def _report_starting(self, row: Backend) -> None:
        life = self.life
        life.problem = life.problem or await asyncio.to_thread(startup_limit, life)
        phase = life.tracker.phase
        said = Finding("log", life.problem is None or None, f"Last stage in the log: {phase}.")
        self._reporter.note(said, life.tracker.last_line_at)  # as old as its last line, not as young as our look at it
        state = STATE_OF[phase.name]
        if row.observed_state in _UPWARD:  # evidence leads upward only: what was seen is not unseen
            state = max(state, row.observed_state, key=_UPWARD.index)
        if life.pulse.died is not None:
            state = "unresponsive"
        columns: dict[str, Any] = self._new_phase()
        if life.problem is not self._shown_problem:
            columns["error"] = life.problem.to_json() if life.problem is not None else None
        self._shown_problem = life.problem
        message = starting_sentence(life, self._watch.proof)
        await self._reporter.report(state, message, phase.to_json(), deadline_at=life.limit_at, **columns)
        if life.problem is not None and life.problem.code in OURS:
            await asyncio.to_thread(life.remember)
            await asyncio.to_thread(wait_gone, life.process, self._around.policy.kill_deadline_s)
            self._around.wake()

    async def _report_ready(self, row: Backend) -> None:
        life = self.life
        said = Finding("log", True, f"Last stage in the log: {life.tracker.phase}.")
        self._reporter.note(said, life.tracker.last_line_at)
        if (tokens_at := life.pulse.tokens_at) is not None:
            text = f"Tokens of requests last flowed at {tokens_at:%H:%M:%S} UTC."
            self._reporter.note(Finding("tokens", True, text), tokens_at)
        columns = self._new_phase()
        if row.observed_state not in {"ready", "unresponsive"} or (row.server_info is None and self._watch.proof):
            columns |= self._first_ready()
        elif row.crashes and time.monotonic() - (life.ready_since or 0.0) > self._around.policy.steady_s:
            columns["crashes"] = 0
        state, message = life.pulse.verdict(now(), self._around.policy)
        at_work = life.pulse.busy
        await self._reporter.report(state, message, life.tracker.phase.to_json(), at_work=at_work, **columns)

    def _first_ready(self) -> dict[str, Any]:
        life, proof = self.life, self._watch.proof
        life.drop_key_file()
        self._next_remember = 0.0
        if proof is None:  # taken back from a supervisor that did not get to write it down
            return {"error": None, "start_id": life.start_id}
        facts = proof.facts or {}
        columns: dict[str, Any] = {"error": None, "start_id": life.start_id, "server_info": facts}
        columns["version"] = proof.version
        columns["start"] = {
            "ready_at": now(),
            "version": proof.version,
            "phases": life.tracker.history(),
        }
        if proof.model is not None:
            columns["model"] = proof.model
        return columns

    def _new_phase(self) -> dict[str, Any]:
        """The stages so far, for the start's row, when another was entered."""
        name = self.life.tracker.phase.name
        if name == self._shown_phase:
            return {}
        self._shown_phase = name
        return {"start_id": self.life.start_id, "start": {"phases": self.life.tracker.history()}}
