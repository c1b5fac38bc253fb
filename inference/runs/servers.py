"""What a run needs to know of a backend: the model it serves, its limits, and whether it may be trusted now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from db.tables import Backend


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
    weight_version: str | None


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
        weight_version=_text(info, "weight_version"),
    )


def why_not_usable(backend: Backend, vocab_size: int) -> str | None:
    """None where requests with ids below `vocab_size` may be sent now, else a sentence for a person."""
    if backend.observed_state != "ready":
        wanted = "" if backend.desired_state == "running" else "; it is not started: start it"
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
