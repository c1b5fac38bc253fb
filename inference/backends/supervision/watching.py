"""What is asked of a living server beside the steps: health and proof of readiness, and the fidelity probe."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from db.errors import DomainError
from db.tables import Backend
from db.types import now
from inference.backends.logs.phases import ORDER, WARMING
from inference.backends.server.client import GenerateError, SglangClient
from inference.backends.server.readiness import Finding, Proof, prove
from inference.backends.supervision.life import Life
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.records import Records
from inference.backends.supervision.reporting import Reporter

Prober = Callable[[SglangClient, Backend], Awaitable[dict[str, Any]]]
"""Makes the fidelity probe's report, as JSON, of a ready server."""


class Watch:
    """The checks of one life; one health check and one probe at a time, neither holding up a step.

    Args:
        life: of what.
        backend_id: whose.
        policy: how often.
        records: where a probe's report goes.
        reporter: what evidence goes to.
        prober: makes the probe.
        wake: called when a check has an answer.
    """

    def __init__(
        self,
        life: Life,
        backend_id: int,
        policy: Policy,
        records: Records,
        reporter: Reporter,
        prober: Prober,
        wake: Callable[[], None],
    ) -> None:
        self._life = life
        self._id = backend_id
        self._policy = policy
        self._records = records
        self._reporter = reporter
        self._prober = prober
        self._wake = wake
        self._checking = self._probing = False
        self._next_check = self._next_probe = 0.0
        self.proof: Proof | None = None
        """The last proof of readiness that was tried."""

    def schedule(self, row: Backend) -> None:
        """Begin what is due."""
        if not self._checking and time.monotonic() >= self._next_check:
            self._checking = True
            self._life.task(self._check())
        wanted = row.probe_requested or row.probe is None
        if wanted and row.observed_state == "ready" and not self._probing and time.monotonic() >= self._next_probe:
            self._probing = True
            self._life.task(self._probe(row))

    async def _check(self) -> None:
        try:
            wait = await self._health() if self._life.ever_ready else await self._prove()
            self._next_check = time.monotonic() + wait
        finally:
            self._checking = False
            self._wake()

    async def _prove(self) -> float:
        life, policy = self._life, self._policy
        self._next_check = time.monotonic() + policy.starting_check_s
        proof = await prove(
            life.client, life.weight_version, health_s=policy.health_timeout_s, generate_s=policy.first_generate_s
        )
        for finding in proof.findings:
            self._reporter.note(finding)
        self.proof = proof
        if proof.ready:
            life.ready_since = time.monotonic()
            return policy.health_s
        opened = proof.answers or ORDER.index(life.tracker.phase.name) >= ORDER.index(WARMING)
        return policy.warming_check_s if opened else policy.starting_check_s

    async def _health(self) -> float:
        began = now()
        health = await self._life.client.health(timeout_s=self._policy.health_timeout_s)
        self._reporter.note(Finding("health", health.ok, health.text))
        if health.ok:
            self._life.bad_health_since = None
            return self._policy.health_s
        self._life.bad_health_since = self._life.bad_health_since or began
        return self._policy.sick_health_s

    async def _probe(self, row: Backend) -> None:
        self._next_probe = time.monotonic() + self._policy.probe_retry_s
        try:
            await make_probe(self._prober, self._life.client, row, self._records, self._reporter)
        finally:
            self._probing = False
            self._wake()


async def make_probe(prober: Prober, client: SglangClient, row: Backend, records: Records, reporter: Reporter) -> None:
    """Make the fidelity probe and write its report down; one that cannot be made is evidence too."""
    done: dict[str, Any] = {"probe_requested": False}
    try:
        report = await prober(client, row)
    except (GenerateError, DomainError, ValueError, OSError) as error:
        reporter.note(Finding("probe", False, f"The fidelity probe could not be made: {error}"))
    else:
        good = bool(report.get("ok"))
        text = "The fidelity probe passed." if good else "The fidelity probe refuses this server."
        reporter.note(Finding("probe", good, text))
        done["probe"] = report
    await asyncio.to_thread(records.write, row.id or 0, **done)
