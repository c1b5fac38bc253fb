"""The keeper of an attached server: somebody else's process, watched over HTTP alone. Nothing here starts or ends anything.

What is held of it is what is held of our own, less the process and the log: ready is a real generation by ids, alive is tokens
flowing, and only an idle one is asked for a token. Behind its address anything may change at any time: another model, other
weights, another version. That is looked for, said, and probed anew before a run uses it again.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from db.tables import Backend
from db.types import now
from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import Proof
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.surroundings import Surroundings
from inference.backends.supervision.visiting import Visit


class AttachedKeeper:
    """Keeps one attached backend.

    Args: as for `ManagedKeeper`.
    """

    def __init__(self, backend_id: int, around: Surroundings) -> None:
        self._id = backend_id
        self._around = around
        self._policy = around.policy
        self._reporter = Reporter(around.records, backend_id, around.policy.refresh_s)
        self.next_look = 0.0
        self._visit: Visit | None = None
        self._reached: tuple[str, str | None] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._due: dict[str, float] = {}

    async def step(self, row: Backend) -> None:
        """Look once, and do what is due."""
        self.next_look = time.monotonic() + self._policy.steady_look_s
        if row.desired_state != "running":
            await self.close()
            if row.observed_state != "stopped":
                message = "Not watched. The server itself was not touched."
                await self._reporter.report("stopped", message, phase=None)
            return
        reached = (row.url or "", row.api_key)
        if self._visit is None or self._reached != reached:
            await self.close()
            self._reached = reached
            client = SglangClient(*reached, max_connections=8)
            self._visit = Visit(client, self._id, self._around, self._reporter)
            if row.observed_state in {"stopped", "failed"}:
                message = f"Asking {row.url} whether it is ready."
                await self._reporter.report("starting", message, probe=None, error=None)
        self._schedule(self._visit, row)
        await self._report(self._visit, row)

    async def close(self) -> None:
        """Stop watching."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._visit is not None:
            await self._visit.client.aclose()
            self._around.book.drop(self._id)
        self._visit = self._reached = None
        self._due.clear()
        self._reporter.clear()

    def _schedule(self, visit: Visit, row: Backend) -> None:
        if not visit.proven:
            self._begin("proof", lambda: visit.prove(row))
            return
        at = now()
        self._begin("figures", visit.read_figures)
        self._begin("identity", lambda: visit.ask_identity(row))
        if visit.pulse.quiet(at, self._policy):
            self._begin("health", visit.ask_health)
        if visit.waits_long or visit.pulse.canary_is_due(at, self._policy):
            self._begin("canary", lambda: visit.send_canary(row))
        if row.observed_state == "ready" and (row.probe_requested or row.probe is None):
            self._begin("probe", lambda: visit.probe(row))

    def _begin(self, kind: str, check: Callable[[], Coroutine[Any, Any, float]]) -> None:
        if kind not in self._tasks and time.monotonic() >= self._due.get(kind, 0.0):
            self._tasks[kind] = asyncio.create_task(self._run(kind, check))

    async def _run(self, kind: str, check: Callable[[], Coroutine[Any, Any, float]]) -> None:
        """One check; the next of its kind is due so many seconds after it as it returns."""
        wait = self._policy.sick_health_s
        try:
            wait = await check()
        finally:
            self._due[kind] = time.monotonic() + wait
            self._tasks.pop(kind, None)
            if kind != "figures":
                self.next_look = 0.0
                self._around.wake()

    async def _report(self, visit: Visit, row: Backend) -> None:
        if visit.proven:
            columns: dict[str, Any] = {}
            if visit.proof is not None and (row.observed_state != "ready" or row.server_info is None):
                columns = {"error": None, **columns_of(visit.proof)}
            state, message = visit.verdict()
            await self._reporter.report(state, message, at_work=visit.pulse.busy, **columns)
        elif (complaint := visit.complaint()) is not None:
            await self._reporter.report("unresponsive", complaint)


def columns_of(proof: Proof) -> dict[str, Any]:
    """What a server told of itself, for its row."""
    return {"server_info": proof.facts or {}, "version": proof.version, "model": proof.model}
