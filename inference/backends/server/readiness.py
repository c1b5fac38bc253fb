"""What proves that a server is ready, and that it is ours: an answer to a real request by ids that carries our version.

A ready line in the log proves nothing (SGLang prints it also when another server holds its port), nor does a listed model or
a 200 from the port. `/ready` costs nothing and is asked first; where there is none, `/health` counts by its status alone.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.backends.server.client import GenerateError, SglangClient, new_rid
from inference.backends.server.health import HealthAnswer, HealthKind

FIRST_IDS = (0,)
"""Within every vocabulary: what SGLang's own health check sends."""

READY_TIMEOUT_S = 10.0
"""For `/ready`, a test of a flag: a server that cannot answer it so long is stuck, or its machine is."""

NOT_FOUND, UNAVAILABLE = 404, 503


@dataclass(frozen=True, slots=True)
class Finding:
    """What one signal said, for the evidence list."""

    source: str
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What our own server must say of itself: the version of this very start, and the model it was launched with."""

    weight_version: str
    model_path: str
    serves: bool = True
    """False for a node that only works for node 0: it has a health check of its own and answers no request"""


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of one look. `ready` only where no finding is bad; `facts` is what the server told of itself."""

    ready: bool
    findings: tuple[Finding, ...]
    stranger: bool = False
    """Somebody else's server answers on our port."""
    unauthorized: bool = False
    answers: bool = False
    """Something listens and speaks HTTP."""
    facts: dict[str, Any] | None = None

    @property
    def model(self) -> str | None:
        """The model it serves, as far as its column goes."""
        return self._word("model_path", 500)

    @property
    def version(self) -> str | None:
        """SGLang's, as far as its column goes."""
        return self._word("version", 60)

    def _word(self, name: str, longest: int) -> str | None:
        """A fact that is to be a text; other people's servers may say anything, of any length."""
        said = (self.facts or {}).get(name)
        return said[:longest] if isinstance(said, str) else None


async def prove(client: SglangClient, expected: Expected | None, *, health_s: float, generate_s: float) -> Proof:
    """Ask whether it is ready, who it is, and for one token by ids; stops at the first bad answer.

    Args:
        client: of the server.
        expected: what our own process must answer; None for an attached server, which may be a router: what such a one does
            not tell is noted and held against nobody.
        health_s: limit for `/health`, where there is no `/ready`.
        generate_s: limit for the first request.
    """
    health = await ask_ready(client, health_s=health_s)
    findings = [Finding("health", health.ok, health.text)]
    if not health.ok:
        refused = health.kind in {"refused", "timeout"}
        return Proof(False, tuple(findings), unauthorized=health.kind == "unauthorized", answers=not refused)
    if expected is not None and not expected.serves:
        return Proof(True, tuple(findings), answers=True, facts={})
    try:
        info = await _told(client.model_info(), needed=expected is not None)
        if expected is not None and (wrong := _another(client, expected, info)) is not None:
            return Proof(False, (*findings, wrong[0]), stranger=wrong[1], answers=True)
        version = await generate_one(client, generate_s)
        if expected is not None and version != expected.weight_version:
            text = f"The answer's weight version is {version!r}, not ours: another server gave it."
            return Proof(False, (*findings, Finding("generation", False, text)), stranger=True, answers=True)
        facts = await _told(client.server_info(), needed=expected is not None)
    except GenerateError as error:
        finding = Finding("generation", False, f"A first request by ids failed: {error.message}")
        return Proof(False, (*findings, finding), unauthorized=error.kind == "unauthorized", answers=True)
    text = "A first request by ids was answered" + (", by this very start." if expected is not None else ".")
    if not info:
        text += " It does not tell its model, as a router may not."
    findings.append(Finding("generation", True, text))
    facts = {**{name: info[name] for name in _FROM_MODEL_INFO if name in info}, **facts}
    return Proof(True, tuple(findings), answers=True, facts=facts)


async def ask_ready(client: SglangClient, *, health_s: float) -> HealthAnswer:
    """What `/ready` says, over a pooled connection; `/health` where there is no `/ready`. Never raises for a sick server."""
    url = f"{client.base_url}/ready"
    try:
        await client.call("GET", "/ready", timeout_s=READY_TIMEOUT_S)
    except GenerateError as error:
        if error.status == NOT_FOUND:
            return await client.health(timeout_s=health_s)
        if error.status == UNAVAILABLE:
            text = f"{url} answered 503: it starts, drains, is paused, or failed its last health check."
            return HealthAnswer("not_ready", UNAVAILABLE, text, url)
        if error.kind == "malformed" and error.status == _OK:  # its status counts, whatever its body
            return HealthAnswer("ok", _OK, f"{url} answered 200.", url)
        if error.status is not None:
            kind: HealthKind = "unauthorized" if error.kind == "unauthorized" else "error"
            return HealthAnswer(kind, error.status, f"{url} answered {error.status}: {error.message}", url)
        return HealthAnswer("timeout" if error.kind == "timeout" else "refused", None, error.message, url)
    return HealthAnswer("ok", _OK, f"{url} answered 200.", url)


async def generate_one(client: SglangClient, timeout_s: float) -> str | None:
    """One token by ids, greedily; the weight version that the answer carries. A late one is aborted.

    Raises:
        GenerateError: no answer, or a bad one.
    """
    try:
        answer = await client.generate(
            list(FIRST_IDS), {"max_new_tokens": 1, "temperature": 0.0}, new_rid(), timeout_s=timeout_s
        )
    except GenerateError as error:
        if error.kind == "timeout" and error.rid is not None:
            await client.abort(error.rid)
        raise
    return answer.weight_version


def same_model(launched: str, told: str) -> bool:
    """Whether both name one model: a path may be written in two ways, and a hub id be told as where it was put."""
    ours, theirs = Path(launched), Path(told)
    if launched == told or (not ours.is_absolute() and theirs.is_absolute()):
        return True
    return ours.is_absolute() and theirs.is_absolute() and ours.resolve() == theirs.resolve()


def _another(client: SglangClient, expected: Expected, info: dict[str, Any]) -> tuple[Finding, bool] | None:
    """What is wrong with who answers, and whether it is a stranger; None where it is the one we started."""
    version, model = info.get("weight_version"), info.get("model_path")
    if version != expected.weight_version:
        text = f"The server at {client.base_url} is another one (weight version {version!r}, not ours)."
        return Finding("generation", False, text), True
    if not isinstance(model, str) or not same_model(expected.model_path, model):
        text = f"It serves {model!r}, but was launched with {expected.model_path}: its weights were replaced."
        return Finding("generation", False, text), False
    return None


async def _told(question: Awaitable[dict[str, Any]], *, needed: bool) -> dict[str, Any]:
    """What a server tells of itself; nothing where it has no such endpoint and need not."""
    try:
        return await question
    except GenerateError as error:
        if needed or error.kind == "unauthorized":
            raise
        return {}


_OK = 200
_FROM_MODEL_INFO = (
    "model_path",
    "tokenizer_path",
    "served_model_name",
    "weight_version",
    "model_type",
    "architectures",
    "reasoning_parser",
    "tool_call_parser",
)
