"""The keeper of an attached server: somebody else's process, watched over HTTP alone. Nothing here starts or ends anything."""

import asyncio
import time
from datetime import datetime
from typing import Any

from db.tables import Backend
from db.types import now
from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import Finding, Proof, prove
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.surroundings import Surroundings
from inference.backends.supervision.watching import make_probe


class AttachedKeeper:
    """Keeps one attached backend: checked like a managed one, but for the process and the log.

    Args: as for `ManagedKeeper`.
    """

    def __init__(self, backend_id: int, around: Surroundings) -> None:
        self._id = backend_id
        self._around = around
        self._records = around.records
        self._policy = around.policy
        self._reporter = Reporter(around.records, backend_id, around.policy.refresh_s)
        self.next_look = 0.0
        self._client: SglangClient | None = None
        self._reached: tuple[str, str | None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._proven = False
        self._proof: Proof | None = None
        self._sick_since: datetime | None = None
        self._next_check = self._next_probe = 0.0

    async def step(self, row: Backend) -> None:
        """Look once, and do what is due."""
        self.next_look = time.monotonic() + self._policy.steady_look_s
        if row.desired_state != "running":
            await self.close()
            if row.observed_state != "stopped":
                await self._reporter.report("stopped", "Not watched. The server itself was not touched.", phase=None)
            return
        if self._client is None or self._reached != (row.url or "", row.api_key):
            await self.close()
            self._reached = (row.url or "", row.api_key)
            self._client = SglangClient(row.url or "", row.api_key, max_connections=8)
            if row.observed_state in {"stopped", "failed"}:
                await self._reporter.report(
                    "starting", f"Asking {row.url} whether it is ready.", probe=None, error=None
                )
        if self._task is None and time.monotonic() >= self._next_check:
            self._task = asyncio.create_task(self._check(self._client, row))
        elif self._task is None and self._probe_is_due(row):
            self._task = asyncio.create_task(self._probe(self._client, row))
        await self._report(row)

    def _wake(self) -> None:
        self.next_look = 0.0
        self._around.wake()

    async def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
        self._client = self._task = self._proof = self._sick_since = self._reached = None
        self._proven = False
        self._next_check = self._next_probe = 0.0
        self._reporter.clear()

    def _probe_is_due(self, row: Backend) -> bool:
        wanted = row.probe_requested or row.probe is None
        return wanted and row.observed_state == "ready" and time.monotonic() >= self._next_probe

    async def _check(self, client: SglangClient, row: Backend) -> None:
        policy = self._policy
        began = now()
        self._next_check = time.monotonic() + policy.sick_health_s
        try:
            if self._proven and self._sick_since is None:
                health = await client.health(timeout_s=policy.health_timeout_s)
                self._reporter.note(Finding("health", health.ok, health.text))
                ok = health.ok
            else:
                proof = await prove(client, None, health_s=policy.health_timeout_s, generate_s=policy.first_generate_s)
                for finding in proof.findings:
                    self._reporter.note(finding)
                self._proof, ok = proof, proof.ready
                if ok and not self._same_server(row, proof):
                    await asyncio.to_thread(self._records.write, self._id, probe=None)
            self._sick_since = None if ok else self._sick_since or began
            self._proven = self._proven or ok
            self._next_check = time.monotonic() + (policy.attached_check_s if ok else policy.sick_health_s)
        finally:
            self._task = None
            self._wake()

    @staticmethod
    def _same_server(row: Backend, proof: Proof) -> bool:
        """Whether what answers now is what was probed: model and weights by name, the version of SGLang."""
        before, facts = row.server_info or {}, proof.facts or {}
        return all(before.get(name) == facts.get(name) for name in ("model_path", "weight_version", "version"))

    async def _report(self, row: Backend) -> None:
        columns: dict[str, Any] = {}
        if self._sick_since is not None:
            state, message = (
                "unresponsive",
                f"No good answer since {self._sick_since:%H:%M:%S} UTC: {self._complaint()}",
            )
            if self._proof is not None and self._proof.unauthorized:
                message = "The server refuses the API key: correct api_key, then start watching again."
            elif not self._proven and self._proof is not None and self._proof.answers:
                state = "unresponsive"
                message = f"It answers but is not ready: {self._complaint()}"
        elif self._proven:
            state, message = "ready", "Ready: it answers requests by ids."
            if row.observed_state != "ready" and self._proof is not None:
                facts = self._proof.facts or {}
                columns = {
                    "server_info": facts,
                    "version": facts.get("version"),
                    "model": self._proof.model,
                    "error": None,
                }
        else:
            return
        await self._reporter.report(state, message, **columns)

    def _complaint(self) -> str:
        return next(
            (str(item["text"]) for item in reversed(self._reporter.evidence()) if item["ok"] is False), "no answer"
        )

    async def _probe(self, client: SglangClient, row: Backend) -> None:
        self._next_probe = time.monotonic() + self._policy.probe_retry_s
        try:
            await make_probe(self._around, client, row, self._reporter)
        finally:
            self._task = None
            self._wake()
