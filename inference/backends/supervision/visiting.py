"""What is asked of an attached server: proof of readiness, signs of life, figures, whether it is still the same one."""

import asyncio
from datetime import datetime
from typing import Any

from db.tables import Backend
from db.types import now
from inference.backends.server.client import GenerateError, SglangClient
from inference.backends.server.loads import read_figures
from inference.backends.server.readiness import Finding, Proof, ask_ready, generate_one, prove
from inference.backends.supervision.pulse import Pulse
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.surroundings import Surroundings
from inference.backends.supervision.watching import make_probe

NOT_MADE = "The fidelity probe could not be made"
_IDENTITY = {"model_path": "model", "weight_version": "weights", "version": "SGLang"}


class Visit:
    """One server at one address, as long as it is watched. Each question returns the seconds until it is due again.

    Args:
        client: of the server.
        backend_id: whose.
        around: database, figures, patience.
        reporter: what evidence goes to.
    """

    def __init__(self, client: SglangClient, backend_id: int, around: Surroundings, reporter: Reporter) -> None:
        self.client = client
        self._id = backend_id
        self._around = around
        self._policy = around.policy
        self._reporter = reporter
        self.pulse = Pulse(now(), ours=False)
        self.proven = False
        """It answered a real request by ids, and gives no reason to doubt that it still does"""
        self.proof: Proof | None = None
        """The last proof of readiness that was tried"""
        self._sick_since: datetime | None = None
        self._waits_since: datetime | None = None
        self._tells = False
        """Whether it ever told its figures"""
        self._known: dict[str, Any] = {}
        """What it told of itself, as far as that was written down; its row may be read a moment later"""
        self._asking = 0
        """Tokens of ours under way: no sign that it is at work for others"""

    @property
    def waits_long(self) -> bool:
        """Whether a server that tells no figures leaves a token of ours unanswered: it is full of work, or it hangs."""
        return self._waits_since is not None

    @property
    def _is_router(self) -> bool:
        facts = self.proof.facts if self.proof is not None else None
        return bool((facts or {}).get("router_workers"))

    def verdict(self) -> tuple[str, str]:
        """`ready` or `unresponsive`, and why."""
        if self._waits_since is None:
            return self.pulse.verdict(now(), self._policy)
        waits = f"one token of ours was not answered since {self._waits_since:%H:%M:%S} UTC"
        if (now() - self._waits_since).total_seconds() <= self._policy.busy_limit_s:
            return (
                "ready",
                f"Ready and busy, as it seems: {waits}, but it answers its health check and tells no figures.",
            )
        return (
            "unresponsive",
            f"Unresponsive: {waits}, longer than a queue should take. It looks hung; it is asked again.",
        )

    def complaint(self) -> str | None:
        """Why it is not ready; None where it was not asked yet."""
        if self._sick_since is None:
            return None
        if self.proof is not None and self.proof.unauthorized:
            return "The server refuses the API key: correct api_key, then start watching again."
        bad = next((item["text"] for item in reversed(self._reporter.evidence()) if item["ok"] is False), "no answer")
        if self.proof is not None and self.proof.answers:
            return f"It answers but is not ready: {bad}"
        return f"No good answer since {self._sick_since:%H:%M:%S} UTC: {bad}"

    async def prove(self, row: Backend) -> float:
        """Ask whether it is ready, who it is, and for one token by ids."""
        began = now()
        proof = await prove(
            self.client, None, health_s=self._policy.health_timeout_s, generate_s=self._policy.attached_generate_s
        )
        for finding in proof.findings:
            self._reporter.note(finding)
        self.proof = proof
        if not proof.ready:
            self._sick_since = self._sick_since or began
            return self._policy.sick_health_s
        await self._take_over(row, proof)
        self.pulse, self._waits_since, self._sick_since = Pulse(now(), ours=False), None, None
        self.proven = True
        return 0.0

    async def ask_identity(self, row: Backend) -> float:
        """Whether it still serves what it did: a flag of its own, which costs it nothing."""
        try:
            info = await self.client.model_info()
        except GenerateError:  # whether it lives is judged elsewhere; a router may know of no model
            return self._policy.attached_check_s
        names = ("model_path",) if self._is_router else ("model_path", "weight_version")
        if self._differences(row, {name: info[name] for name in names if name in info}):
            self.proven = False  # proven anew, and whatever differs is written down then
            return 0.0
        return self._policy.attached_check_s

    async def ask_health(self) -> float:
        """What `/ready` or `/health` says; a router is asked how many of the servers behind it are well."""
        began = now()
        health = await ask_ready(self.client, health_s=self._policy.health_timeout_s)
        behind = await _behind(self.client) if health.ok and self._is_router else ""
        self._reporter.note(Finding("health", health.ok, f"{health.text}{behind}"))
        if health.ok:
            self.pulse.health.clear()
            return self._policy.health_s
        self.pulse.health.add(began, health.text)
        if health.kind == "refused":  # nobody is there, whatever its figures said last
            self._doubt(began, health.text, surely=True)
        elif health.kind == "unauthorized":
            self.proven, self._sick_since = False, began
        return self._policy.sick_health_s

    async def read_figures(self) -> float:
        """Its live figures; one that told them and now does not is asked whether it is there at all."""
        ours = self._asking
        reading = await read_figures(self.client)
        if reading is None:
            if self._tells:
                await self.ask_health()
            return self._policy.figures_s if self.pulse.busy else self._policy.idle_figures_s
        self._tells, self._waits_since = True, None
        self._around.book.add(self._id, reading)
        in_flight = max(0, (reading.running or 0) + (reading.queued or 0) - (ours or self._asking))
        self.pulse.figures(reading.at, in_flight)
        if reading.flowing:
            self.pulse.tokens(reading.at)
            self._reporter.note(Finding("tokens", True, f"Tokens of requests flowed at {reading.at:%H:%M:%S} UTC."))
        self._reporter.note(Finding("figures", reading.fresh or None, str(reading)))
        return self._policy.figures_s if in_flight else self._policy.idle_figures_s

    async def send_canary(self, row: Backend) -> float:
        """One token by ids; only where nothing else tells that it generates."""
        began = now()
        self._asking = 1
        try:
            version = await generate_one(self.client, self._policy.canary_timeout_s)
        except GenerateError as error:
            if self.pulse.busy or (self.pulse.tokens_at is not None and self.pulse.tokens_at >= began):
                return self._policy.sick_health_s  # work came between: that is no failure
            text = f"A generation of one token failed: {error.message}"
            self._reporter.note(Finding("generation", False, text))
            if error.kind in {"timeout", "busy"} and not self._tells and not self.pulse.health.count:
                self._waits_since = self._waits_since or began
            else:
                self._doubt(began, text, surely=error.kind == "unauthorized")
            return self._policy.sick_health_s
        finally:
            self._asking = 0
        self._reporter.note(Finding("generation", True, "A generation of one token was answered."))
        self._waits_since = None
        self.pulse.answered(now())
        told = {"weight_version": version} if version is not None else {}
        if row.probe and (differ := self._differences(row, told)):
            if not self._is_router:
                self.proven = False  # proven anew, and written down then
                return 0.0
            self._known |= told  # what a router tells of itself is of one server; this answer is of another
            await self._changed(row, differ, {})
        return 0.0

    async def probe(self, row: Backend) -> float:
        """The fidelity probe; after a change it is due again at once, and where it could not be made after a while."""
        await make_probe(self._around, self.client, row, self._reporter)
        said = next((item["text"] for item in self._reporter.evidence() if item["source"] == "probe"), "")
        return self._policy.probe_retry_s if said.startswith(NOT_MADE) else 2 * self._policy.steady_look_s

    def _doubt(self, began: datetime, text: str, *, surely: bool) -> None:
        if surely:
            self.pulse.figures(began, 0)
        self.pulse.generation.add(began, text, surely=surely)
        if self.pulse.verdict(now(), self._policy)[0] == "unresponsive":
            self.proven, self._sick_since = False, self.pulse.generation.since
            self._around.book.drop(self._id)

    async def _take_over(self, row: Backend, proof: Proof) -> None:
        """What a proof told of it; where that is not what it was, it is said and probed again."""
        facts = proof.facts or {}
        told = {name: facts[name] for name in _IDENTITY if name in facts}
        if self._is_router:  # of whichever server it asked
            told.pop("weight_version", None)
        differ = self._differences(row, told)
        self._known |= told
        if differ:
            columns = {"server_info": facts, "version": proof.version, "model": proof.model}
            await self._changed(row, differ, columns)

    async def _changed(self, row: Backend, differ: list[str], columns: dict[str, Any]) -> None:
        records = self._around.records
        message = (
            f"Another server answers at {row.url}, or it was changed: {'; '.join(differ)}. It is probed again before runs "
            "use it."
        )
        await asyncio.to_thread(lambda: records.write(self._id, probe=None, **columns))
        await asyncio.to_thread(records.event, self._id, "server_changed", message)

    def _differences(self, row: Backend, told: dict[str, Any]) -> list[str]:
        """In words, what it tells of itself that it did not before; behind a router there may be several weights."""
        before = {**(row.server_info or {}), **self._known}
        seen = (row.probe or {}).get("weight_versions") or []
        return [
            f"{_IDENTITY[name]} {value}, before {before[name]}"
            for name, value in told.items()
            if before.get(name) is not None
            and value != before[name]
            and not (name == "weight_version" and value in seen)
        ]


async def _behind(client: SglangClient) -> str:
    """How many servers behind a router are well, by its own word."""
    try:
        told = await client.call("GET", "/readiness", timeout_s=10.0)
    except GenerateError as error:
        return f" The router is not ready: {error.message}" if error.status is not None else ""
    healthy, total = (
        (told.get("healthy_workers"), told.get("total_workers")) if isinstance(told, dict) else (None, None)
    )
    if not isinstance(healthy, int) or not isinstance(total, int):
        return ""
    return f" It is a router: {healthy} of {total} servers behind it are well, it says."
