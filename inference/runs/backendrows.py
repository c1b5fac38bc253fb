"""What a run found out about its backends, written down: breakers, other weights, and who was left out or taken back.

Each call is one short transaction, made when something changed and never for a request.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import update
from sqlmodel import Session, col, select

from db.tables import Backend, BackendEvent, Run, RunBackend, RunEvent
from db.types import now
from inference.backends.server.breaker import as_of
from inference.context import Context
from inference.runs.servers import why_left_out, why_not_usable
from inference.runs.views import LeftOut

GOING: Final = ("queued", "running", "pausing")
"""Runs in such a state may send"""


def keep_breaker(ctx: Context, backend_id: int, start_id: int | None, stands: dict[str, Any] | None) -> None:
    """Write a breaker to its backend's row, unless another start of the server has begun meanwhile."""
    with ctx.db.write() as s:
        same_start = col(Backend.start_id).is_(None) if start_id is None else col(Backend.start_id) == start_id
        s.execute(update(Backend).where(col(Backend.id) == backend_id, same_start).values(breaker=stands))


def probe_again(ctx: Context, backend_id: int, run_id: int, weight_version: str) -> None:
    """An attached server answered from weights that its probe did not meet: it is not used until it is probed again."""
    with ctx.db.write() as s:
        backend = s.get(Backend, backend_id)
        if backend is None or not backend.probe:
            return
        backend.probe, backend.updated_at = None, now()  # the supervisor reads a row that was touched
        message = (
            f"An answer to run {run_id} came from weights {weight_version!r}, which its probe did not meet: another server "
            "stands behind this address now, or its weights were changed. It is probed again before it is used."
        )
        s.add(
            BackendEvent(
                backend_id=backend_id,
                kind="server_changed",
                message=message,
                detail={"run_id": run_id, "weight_version": weight_version},
            )
        )


def tell(ctx: Context, run_id: int, news: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
    """Write (kind, sentence, detail) to the run's history."""
    with ctx.db.write() as s:
        if s.get(Run, run_id) is not None:
            for kind, message, detail in news:
                s.add(RunEvent(run_id=run_id, kind=kind, message=message, detail=detail))


def left_out(s: Session, runs: Mapping[int, Run]) -> dict[int, list[LeftOut]]:
    """{run id: its backends that are not sent to now}, by their rows, as the worker reads them too."""
    found: dict[int, list[LeftOut]] = defaultdict(list)
    if not runs:
        return found
    query = (
        select(RunBackend.run_id, Backend)
        .join(Backend, col(Backend.id) == col(RunBackend.backend_id))
        .where(col(RunBackend.run_id).in_(runs))
        .order_by(col(Backend.id))
    )
    for run_id, backend in s.exec(query):
        why = why_not_usable(backend, int(runs[run_id].settings.get("vocab_size") or 0))
        breaker = None if why is not None else as_of(backend.breaker, now())
        why = why or why_left_out(backend.name, breaker)
        if why is not None and backend.id is not None:
            until = breaker["until"] if breaker is not None and breaker.get("state") == "open" else None
            found[run_id].append(LeftOut(backend_id=backend.id, name=backend.name, why=why, until=until))
    return found
