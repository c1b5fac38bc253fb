"""What proves that a server is ready, and that it is ours: an answer to a real request by ids that carries our version.

A ready line in the log proves nothing (SGLang prints it also when another server holds its port), nor does a listed model or
a 200 from the port. `/health` counts by its status alone, whatever its body.
"""

from dataclasses import dataclass
from typing import Any

from inference.backends.server.client import GenerateError, SglangClient, new_rid

FIRST_IDS = (0,)
"""Within every vocabulary: what SGLang's own health check sends."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one signal said, for the evidence list."""

    source: str
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of one look. `ready` only where every finding is good; `facts` is what the server told of itself."""

    ready: bool
    findings: tuple[Finding, ...]
    stranger: bool = False
    """Somebody else's server answers on our port."""
    unauthorized: bool = False
    answers: bool = False
    """Something listens and speaks HTTP."""
    facts: dict[str, Any] | None = None
    model: str | None = None


async def prove(client: SglangClient, weight_version: str | None, *, health_s: float, generate_s: float) -> Proof:
    """Ask for health, identity and one token by ids; stops at the first that fails.

    Args:
        client: of the server.
        weight_version: what our own process must answer with; None for an attached server.
        health_s: limit for the health check.
        generate_s: limit for the first request.
    """
    health = await client.health(timeout_s=health_s)
    findings = [Finding("health", health.ok, health.text)]
    if not health.ok:
        refused = health.kind in {"refused", "timeout"}
        return Proof(False, tuple(findings), unauthorized=health.kind == "unauthorized", answers=not refused)
    try:
        info = await client.model_info()
        version = info.get("weight_version")
        if weight_version is not None and version != weight_version:
            text = f"The server at {client.base_url} is another one (weight version {version!r}, not ours)."
            return Proof(False, (*findings, Finding("generation", False, text)), stranger=True, answers=True)
        answer = await client.generate(
            list(FIRST_IDS), {"max_new_tokens": 1, "temperature": 0.0}, new_rid(), timeout_s=generate_s
        )
        if weight_version is not None and answer.weight_version != weight_version:
            text = f"The answer's weight version is {answer.weight_version!r}, not ours: another server gave it."
            return Proof(False, (*findings, Finding("generation", False, text)), stranger=True, answers=True)
        facts = await client.server_info()
    except GenerateError as error:
        finding = Finding("generation", False, f"A first request by ids failed: {error.message}")
        return Proof(False, (*findings, finding), unauthorized=error.kind == "unauthorized", answers=True)
    findings.append(Finding("generation", True, "A first request by ids was answered, by this very start."))
    if weight_version is None:
        findings[-1] = Finding("generation", True, "A first request by ids was answered.")
    model = info.get("model_path")
    facts = {**{name: info[name] for name in _FROM_MODEL_INFO if name in info}, **facts}
    return Proof(True, tuple(findings), answers=True, facts=facts, model=model if isinstance(model, str) else None)


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
