"""The one door for state changes: what may follow what, and a guarded update, so that two callers cannot both win.

Runs:     queued → running → (pausing → paused) | (cancelling → cancelled) | completed | completed_with_failures | failed;
          a run whose backends are away goes back to queued; regenerate and retry queue a finished one again.
Backends: stopped → starting → loading → warming_up → ready ⇄ unresponsive, ready → draining → stopping → stopped; a crash
          goes backoff → starting, after too many failed; unknown when its process cannot be seen: from there only evidence
          (it is seen again, or its end) or a person's word leads on.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import CursorResult, Update, update
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from db.errors import Conflict, NotFound
from db.tables import Backend, BackendEvent, Run, RunEvent
from db.types import now

Row = TypeVar("Row", Run, Backend)

RUN_MOVES: dict[str, tuple[str, ...]] = {
    "queued": (
        "running",
        "pausing",
        "paused",
        "cancelling",
        "cancelled",
        "completed",
        "completed_with_failures",
        "failed",
    ),
    "running": ("queued", "pausing", "paused", "cancelling", "completed", "completed_with_failures", "failed"),
    "pausing": ("paused", "running", "cancelling", "completed", "completed_with_failures", "failed"),
    "paused": ("queued", "running", "cancelling", "cancelled"),
    "cancelling": ("cancelled",),
    "cancelled": ("queued",),
    "completed": ("queued",),
    "completed_with_failures": ("queued",),
    "failed": ("queued", "cancelled"),
}
RUN_FINISHED = ("cancelled", "completed", "completed_with_failures", "failed")

_DOWN = ("stopped", "failed", "unknown")
BACKEND_MOVES: dict[str, tuple[str, ...]] = {
    "stopped": ("starting", "ready", "unresponsive", "failed", "unknown"),
    "starting": ("loading", "warming_up", "ready", "unresponsive", "draining", "stopping", "backoff", *_DOWN),
    "loading": ("warming_up", "ready", "unresponsive", "draining", "stopping", "backoff", *_DOWN),
    "warming_up": ("ready", "unresponsive", "draining", "stopping", "backoff", *_DOWN),
    "ready": ("unresponsive", "draining", "stopping", "backoff", *_DOWN),
    "unresponsive": ("ready", "draining", "stopping", "backoff", *_DOWN),
    "draining": ("ready", "unresponsive", "stopping", "backoff", *_DOWN),
    "stopping": ("stopped", "failed", "unknown", "backoff"),
    "backoff": ("starting", "stopping", *_DOWN),
    "failed": ("starting", "ready", "stopping", "stopped", "unknown"),
    "unknown": ("loading", "warming_up", "ready", "unresponsive", "stopped", "failed"),
}


def sources(moves: Mapping[str, Collection[str]], to: str) -> tuple[str, ...]:
    """The states from which `to` may follow.

    Raises:
        ValueError: there is no such state.
    """
    if to not in moves:
        raise ValueError(f"no such state: {to}")
    return tuple(state for state, following in moves.items() if to in following)


def move_run(
    s: Session,
    run_id: int,
    to: str,
    *,
    reason_kind: str | None = None,
    reason: str = "",
    only_from: Collection[str] | None = None,
) -> Run:
    """Move a run to another state, say why, and write it to the run's history.

    Sets `started_at` at the first start and `finished_at` at an end (cleared when the run goes on). `only_from` narrows the
    states it may come from. Returns the run as it now is.

    Raises:
        NotFound: there is no such run.
        Conflict: `illegal_move`; `allowed` holds the states that may follow now.
    """
    run = s.exec(_fresh(select(Run).where(col(Run.id) == run_id))).first()
    if run is None:
        raise NotFound("run", run_id)
    came_from = run.state
    legal = _narrowed(sources(RUN_MOVES, to), only_from)
    at = now()
    values: dict[str, Any] = {
        "state": to,
        "reason_kind": reason_kind,
        "reason": reason,
        "finished_at": at if to in RUN_FINISHED else None,
    }
    if to == "running" and run.started_at is None:
        values["started_at"] = at
    statement = update(Run).where(col(Run.id) == run_id, col(Run.state) == came_from, col(Run.state).in_(legal))
    if not _changed_one(s, statement.values(**values)):
        s.refresh(run)
        allowed = RUN_MOVES[run.state]
        raise Conflict("illegal_move", _refusal(f"Run {run_id}", run.state, to, allowed), allowed=allowed)
    s.add(
        RunEvent(run_id=run_id, at=at, kind=to, message=reason, detail={"from": came_from, "reason_kind": reason_kind})
    )
    s.flush()
    s.refresh(run)
    return run


def move_backend(
    s: Session,
    backend_id: int,
    to: str,
    message: str,
    *,
    start_id: int | None = None,
    detail: Mapping[str, Any] | None = None,
    only_from: Collection[str] | None = None,
) -> Backend:
    """Record what is observed of a backend; its history gets a line when the state changed.

    The same state again only brings the message and `observed_at` up to date. `start_id` names the start in the event.
    Returns the backend as it now is.

    Raises:
        NotFound: there is no such backend.
        Conflict: `illegal_move`; `allowed` holds the states that may follow now.
    """
    backend = s.exec(_fresh(select(Backend).where(col(Backend.id) == backend_id))).first()
    if backend is None:
        raise NotFound("backend", backend_id)
    came_from = backend.observed_state
    legal = _narrowed((*sources(BACKEND_MOVES, to), to), only_from)
    at = now()
    statement = update(Backend).where(
        col(Backend.id) == backend_id, col(Backend.observed_state) == came_from, col(Backend.observed_state).in_(legal)
    )
    values = {"observed_state": to, "message": message, "observed_at": at, "updated_at": at}
    if not _changed_one(s, statement.values(**values)):
        s.refresh(backend)
        allowed = BACKEND_MOVES[backend.observed_state]
        raise Conflict(
            "illegal_move", _refusal(f"Backend {backend.name}", backend.observed_state, to, allowed), allowed=allowed
        )
    if came_from != to:
        s.add(_event(backend_id, to, message, at, start_id or backend.start_id, {"from": came_from, **(detail or {})}))
        s.flush()
    s.refresh(backend)
    return backend


def _event(
    backend_id: int, kind: str, message: str, at: datetime, start_id: int | None, detail: dict[str, Any]
) -> BackendEvent:
    return BackendEvent(backend_id=backend_id, start_id=start_id, at=at, kind=kind, message=message, detail=detail)


def _fresh(statement: SelectOfScalar[Row]) -> SelectOfScalar[Row]:
    """Read the row itself, not the session's memory of it; PostgreSQL also locks it until the transaction ends."""
    return statement.with_for_update().execution_options(populate_existing=True)


def _changed_one(s: Session, statement: Update) -> bool:
    result = s.execute(statement, execution_options={"synchronize_session": False})
    return isinstance(result, CursorResult) and result.rowcount == 1


def _narrowed(states: Collection[str], only_from: Collection[str] | None) -> list[str]:
    return [state for state in states if only_from is None or state in only_from]


def _refusal(what: str, state: str, to: str, allowed: Collection[str]) -> str:
    following = f"it can become {', '.join(allowed)}" if allowed else "nothing can follow"
    return f"{what} is {state} and cannot become {to} now; {following}."
