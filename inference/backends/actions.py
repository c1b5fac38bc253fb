"""What may be asked of a backend as it stands: the rules behind a page's buttons and a 409's answer."""

from db.tables import Backend

_WITHOUT_PROCESS = ("stopped", "failed")
"""Observed states without a process (or a watch)."""


def allowed_actions(backend: Backend) -> list[str]:
    """The actions that are legal now, for a page's buttons and a 409's answer."""
    state, wanted = backend.observed_state, backend.desired_state == "running"
    if not wanted:
        return ["start", "delete"] if state in _WITHOUT_PROCESS else ["start"]
    if backend.restart_requested:
        return ["stop"]
    if state == "failed":
        return ["start", "stop", "delete"]
    if state == "backoff":
        return ["start", "stop"]
    if state == "stopped":
        return ["stop"]
    actions = ["stop"]
    if backend.kind == "managed":
        actions.append("restart")
    if state in {"ready", "unresponsive"}:
        actions.append("probe")
    return actions


def at_rest(backend: Backend) -> bool:
    """Whether it has no process (or watch) and none is wanted."""
    if backend.observed_state == "failed":
        return not backend.restart_requested
    return backend.observed_state == "stopped" and backend.desired_state == "stopped"


def standing(backend: Backend) -> str:
    """How it stands, as the middle of a sentence about it."""
    if backend.desired_state == "running" and backend.observed_state in _WITHOUT_PROCESS:
        return "is about to be started"
    return f"is {backend.observed_state.replace('_', ' ')}"
