"""What is asked of a living server beside the steps: proof of readiness, signs of life, live figures, the fidelity probe."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from db.errors import DomainError
from db.tables import Backend
from db.types import now
from inference.backends.logs.phases import MEMORY, ORDER
from inference.backends.server.client import GenerateError, SglangClient
from inference.backends.server.loads import read_figures
from inference.backends.server.readiness import Finding, Proof, ask_ready, generate_one, prove
from inference.backends.supervision.life import Life
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.surroundings import Surroundings


class Watch:
    """The checks of one life; one of a kind at a time, none holding up a step.

    Args:
        life: of what.
        backend_id: whose.
        around: where figures and a probe's report go, how often to ask.
        reporter: what evidence goes to.
        wake: called when a check has an answer.
    """

    def __init__(
        self, life: Life, backend_id: int, around: Surroundings, reporter: Reporter, wake: Callable[[], None]
    ) -> None:
        self._life = life
        self._id = backend_id
        self._around = around
        self._policy = around.policy
        self._reporter = reporter
        self._wake = wake
        self._under_way: set[str] = set()
        self._due: dict[str, float] = {}
        self._figures_at: datetime | None = None
        self._tells = False
        """Whether it ever told its figures itself"""
        self.proof: Proof | None = None
        """The last proof of readiness that was tried."""

    def schedule(self, row: Backend) -> None:
        """Begin what is due."""
        life, pulse = self._life, self._life.pulse
        if not life.ever_ready:
            self._begin("proof", self._prove)
            return
        if pulse.quiet(now(), self._policy):
            self._begin("look", self._look)
        if pulse.busy or _nothing_since(self._figures_at, pulse.tokens_at):
            self._begin("figures", self._read_figures)
        if row.observed_state == "ready" and life.expected.serves and (row.probe_requested or row.probe is None):
            self._begin("probe", lambda: self._probe(row))

    def _begin(self, kind: str, check: Callable[[], Awaitable[float]]) -> None:
        if kind in self._under_way or time.monotonic() < self._due.get(kind, 0.0):
            return
        self._under_way.add(kind)
        self._life.task(self._run(kind, check))

    async def _run(self, kind: str, check: Callable[[], Awaitable[float]]) -> None:
        """One check; the next of its kind is due so many seconds after it as it returns."""
        wait = self._policy.sick_health_s
        try:
            wait = await check()
        finally:
            self._due[kind] = time.monotonic() + wait
            self._under_way.discard(kind)
            if kind != "figures":
                self._wake()

    async def _prove(self) -> float:
        life, policy = self._life, self._policy
        proof = await prove(
            life.client, life.expected, health_s=policy.health_timeout_s, generate_s=policy.first_generate_s
        )
        for finding in proof.findings:
            self._reporter.note(finding)
        self.proof = proof
        if proof.ready:
            life.ready_since = time.monotonic()
            life.pulse.answered(now())
            self._due["look"] = 0.0
        opened = proof.answers or ORDER.index(life.tracker.phase.name) >= ORDER.index(MEMORY)
        return policy.warming_check_s if opened else policy.starting_check_s

    async def _look(self) -> float:
        """What an idle server, or one whose work is silent, is asked: one question after the other, over one connection."""
        policy, pulse = self._policy, self._life.pulse
        began = now()
        health = await ask_ready(self._life.client, health_s=policy.health_timeout_s)
        self._reporter.note(Finding("health", health.ok, health.text))
        if health.ok:
            pulse.health.clear()
        else:
            pulse.health.add(began, health.text)
        if self._life.expected.serves:
            await self._read_figures()
            if pulse.canary_is_due(now(), policy):
                await self._send_canary()
        return policy.sick_health_s if pulse.health.count or pulse.generation.count else policy.health_s

    async def _send_canary(self) -> None:
        """One token by ids, whose answer carries our version."""
        life, policy, began = self._life, self._policy, now()
        pulse = life.pulse
        try:
            version = await generate_one(life.client, policy.canary_timeout_s)
        except GenerateError as error:
            await self._read_figures()
            if pulse.busy or not _nothing_since(
                pulse.tokens_at, began
            ):  # a long prefill came between: that is no failure
                return
            text = f"A generation of one token failed: {error.message}"
            self._reporter.note(Finding("generation", False, text))
            pulse.generation.add(began, text)
            return
        if version != life.expected.weight_version:
            text = f"its weight version is {version!r}, not this start's: its weights were changed, or another answers."
            self._reporter.note(Finding("generation", False, f"A generation was answered, but {text}"))
            pulse.generation.add(began, text, surely=True)
            return
        self._reporter.note(Finding("generation", True, "A generation of one token was answered, by this very start."))
        pulse.answered(now())

    async def _read_figures(self) -> float:
        life, policy = self._life, self._policy
        self._figures_at = now()
        reading = await read_figures(life.client)
        self._tells = self._tells or reading is not None
        if reading is None and not self._tells:
            reading = life.batch_lines.reading(now())
        if reading is None:  # what was said last stands: one that cannot be asked for a moment is as busy as it was
            return policy.figures_s
        self._around.book.add(self._id, reading.filled(life.batch_lines.reading(reading.at)))
        in_flight = (reading.running or 0) + (reading.queued or 0)
        life.pulse.figures(reading.at, in_flight)
        if reading.flowing and reading.source != "log":  # the log's lines were taken in when they came
            life.pulse.tokens(reading.at)
        self._reporter.note(Finding("figures", reading.fresh or None, str(reading)))
        return policy.figures_s

    async def _probe(self, row: Backend) -> float:
        await make_probe(self._around, self._life.client, row, self._reporter)
        return self._policy.probe_retry_s


def _nothing_since(seen_at: datetime | None, at: datetime | None) -> bool:
    """Whether something was seen last before `at`, or never; no where `at` is none."""
    return at is not None and (seen_at is None or seen_at < at)


async def make_probe(around: Surroundings, client: SglangClient, row: Backend, reporter: Reporter) -> None:
    """Make the fidelity probe and write its report down; one that cannot be made is evidence too."""
    done: dict[str, Any] = {"probe_requested": False}
    try:
        report = await around.prober(client, row)
    except (GenerateError, DomainError, ValueError, OSError) as error:
        reporter.note(Finding("probe", False, f"The fidelity probe could not be made: {error}"))
    else:
        good = bool(report.get("ok"))
        text = "The fidelity probe passed." if good else "The fidelity probe refuses this server."
        reporter.note(Finding("probe", good, text))
        done["probe"] = report
    await asyncio.to_thread(around.records.write, row.id or 0, **done)
