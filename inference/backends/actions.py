"""What may be asked of a backend as it stands: the rules behind a page's buttons and a 409's answer."""

from db.tables import Backend

ACTIONS = ("start", "stop", "restart", "kill", "probe", "forget")
"""What can be asked of the supervisor: `kill` ends it without waiting for requests in flight, `forget` says of a server that
cannot be seen that it is gone."""

_WITHOUT_PROCESS = ("stopped", "failed")
"""Observed states without a process (or a watch)."""

_NOTHING_RUNS = {"failed": ("start", "stop", "delete"), "backoff": ("start", "stop"), "stopped": ("stop",)}
"""What may be asked where nothing runs and something is wanted to."""


def allowed_actions(backend: Backend) -> list[str]:
    """The actions that are legal now, for a page's buttons and a 409's answer."""
    state = backend.observed_state
    if state == "unknown":
        return [] if backend.forget_requested else ["forget"]
    if backend.desired_state != "running":
        return ["start", "delete"] if state in _WITHOUT_PROCESS else ["start", *_kill(backend)]
    if backend.restart_requested:
        return ["stop"] if state in _NOTHING_RUNS else ["stop", *_kill(backend)]
    if state in _NOTHING_RUNS:
        return list(_NOTHING_RUNS[state])
    actions = ["stop"]
    if backend.kind == "managed":
        actions += ["restart", *_kill(backend)]
    if state in {"ready", "unresponsive"} and not is_follower(backend):
        actions.append("probe")
    return actions


def is_follower(backend: Backend) -> bool:
    """Whether it is a further node of a server whose first node answers the requests elsewhere."""
    rank = (backend.launch or {}).get("node_rank")
    return isinstance(rank, int) and rank > 0


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


def _kill(backend: Backend) -> list[str]:
    return ["kill"] if backend.kind == "managed" and not backend.kill_requested else []
