"""What a run needs to know of a backend: the model it serves, its limits, and whether it may be trusted now."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from db.tables import Backend
from db.types import now
from inference.backends.actions import is_follower

FRESH: Final = timedelta(seconds=45)
"""Figures that are older say nothing of how busy a server is now; steady ones are written every 30 s"""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Figures of one server, from its own answers where it has given them, else from its launch spec. None = not known yet.

    `context_length` and `max_input` are in tokens; `max_running` is how many requests it decodes at once.
    """

    model: str | None
    tokenizer: str | None
    context_length: int | None
    max_input: int | None
    max_running: int | None
    vocab_size: int | None
    weight_versions: frozenset[str]
    """Those that its answers carried when it was probed: behind a router there may be several servers"""
    echoes: bool = True
    """Whether it sends the prompt's ids back; False where the probe found that it does not, and proved them otherwise"""


@dataclass(frozen=True, slots=True)
class ToldLoad:
    """How busy a server says it is: requests running and queued, whoever sent them."""

    at: str
    running: int
    queued: int

    @property
    def requests(self) -> int:
        """All of them."""
        return self.running + self.queued


def _number(info: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = info.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _text(info: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = info.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def server_facts(backend: Backend) -> ServerFacts:
    """Read the backend's row; what the server said outranks what it was launched with."""
    info: Mapping[str, Any] = backend.server_info or {}
    launch: Mapping[str, Any] = backend.launch or {}
    probe: Mapping[str, Any] = backend.probe or {}
    states = info.get("internal_states")
    first: Mapping[str, Any] = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    return ServerFacts(
        model=_text(info, "model_path") or backend.model or _text(launch, "model_path"),
        tokenizer=_text(info, "tokenizer_path")
        or _text(launch, "tokenizer_path", "model_path")
        or _text(info, "model_path")
        or backend.model,
        context_length=_number(info, "context_length", "context_len", "max_model_len")
        or _number(launch, "context_length"),
        max_input=_number(info, "max_req_input_len"),
        max_running=_number(info, "max_running_requests", "effective_max_running_requests_per_dp")
        or _number(first, "effective_max_running_requests_per_dp")
        or _number(launch, "max_running_requests"),
        vocab_size=_number(info, "vocab_size"),
        weight_versions=_weight_versions(info, probe),
        echoes=not any(_is_unseen(check, "echo") for check in probe.get("checks") or []),
    )


def _weight_versions(info: Mapping[str, Any], probe: Mapping[str, Any]) -> frozenset[str]:
    seen = probe.get("weight_versions")
    told = [*(seen if isinstance(seen, list) else []), _text(info, "weight_version")]
    return frozenset(version for version in told if isinstance(version, str) and version)


def _is_unseen(check: object, name: str) -> bool:
    return isinstance(check, dict) and check.get("name") == name and check.get("ok") is None


def told_load(backend: Backend) -> ToldLoad | None:
    """What its latest figures say; None where there are none, they do not tell, or they are too old to matter."""
    figures = backend.figures or {}
    at, running, queued = figures.get("at"), figures.get("running"), figures.get("queued")
    if not isinstance(at, str) or not isinstance(running, int):
        return None
    try:
        seen = datetime.fromisoformat(at)
    except ValueError:
        return None
    seen = seen if seen.tzinfo is not None else seen.replace(tzinfo=UTC)
    stale = figures.get("stale_s")
    old = timedelta(seconds=stale if isinstance(stale, int | float) else 0)
    return ToldLoad(at, running, queued if isinstance(queued, int) else 0) if now() - seen + old <= FRESH else None


def why_left_out(name: str, breaker: Mapping[str, Any] | None) -> str | None:
    """None where the breaker is closed, else what it says of the server named so, for a person."""
    if not breaker or breaker.get("state") not in {"open", "half_open"}:
        return None
    failures, said = breaker.get("failures"), str(breaker.get("error") or "").strip()
    cause = f"It failed {failures} times in a row" + (f", last: {said.rstrip('.')}." if said else ".")
    if breaker["state"] == "half_open":
        return f"{cause} One request at a time is sent to {name} on trial; it is used again once one is answered."
    until = str(breaker.get("until") or "")
    try:
        until = f"{datetime.fromisoformat(until).astimezone(UTC):%H:%M:%S} UTC"
    except ValueError:
        until = "a while from now"
    return f"{cause} Nothing is sent to {name} until {until}; then one request goes out on trial."


def why_not_usable(backend: Backend, vocab_size: int) -> str | None:
    """None where requests with ids below `vocab_size` may be sent now, else a sentence for a person."""
    if is_follower(backend):
        return (
            f"Backend {backend.name} is node {(backend.launch or {})['node_rank']} of a server of several machines: it serves "
            "no requests, node 0 does. Name the backend of node 0 instead."
        )
    if backend.observed_state != "ready":
        wanted = ""
        if backend.desired_state != "running":
            at_rest = backend.observed_state in {"stopped", "failed"}
            wanted = "; it is not started: start it" if at_rest else "; it was asked to stop: start it again afterwards"
        return f"Backend {backend.name} is {backend.observed_state.replace('_', ' ')}{wanted}."
    probe = backend.probe
    if not probe:
        return f"Backend {backend.name} is ready and waits for its fidelity probe."
    refusals = probe.get("refusals") or []
    if refusals or not probe.get("ok", False):
        first = refusals[0] if refusals else "its fidelity probe did not pass"
        text = first.get("text") or first.get("message") if isinstance(first, dict) else str(first)
        return f"Backend {backend.name} is refused: {text}"
    rows = server_facts(backend).vocab_size
    if rows is not None and rows < vocab_size:
        return (
            f"Backend {backend.name} is refused: its model has {rows:,} ids and this run may send up to {vocab_size:,}; one "
            "that it lacks would take the server down. It serves another model than this run was launched for."
        )
    return None
