"""Alive, ready, figures, and who did what."""

from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col, select
from starlette.responses import JSONResponse

from api.deps import PAGE, After, Ctx, CurrentUser, Limit, Operator, ReadSession
from api.jsonbody import make_router
from api.lock import lock_holder
from api.metrics import Metrics
from api.schemas import AuditView
from api.worker import WorkerWatch
from db.queries.pages import page_by_id
from db.tables import AuditEntry
from inference.context import Context
from inference.model import Page

root = APIRouter(tags=["system"])
router = make_router(tag="system")


@root.get("/healthz")
async def healthz() -> dict[str, str]:
    """The app answers."""
    return {"status": "ok"}


@root.get("/readyz", responses={503: {"description": "Something is missing; `checks` says what."}})
async def readyz(request: Request, ctx: Ctx) -> Response:
    """Whether the database answers and a worker is at work. Open to all, so it says no more than that."""
    watch: WorkerWatch | None = request.app.state.worker
    checks: dict[str, Any] = {"database": await run_sync(_database_answers, ctx)}
    if watch is not None:
        checks["worker"] = await run_sync(lock_holder, ctx.settings.data_dir / "worker.lock") is not None
    ready = all(checks.values())
    return JSONResponse({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)


@root.get("/metrics", response_class=Response)
def metrics(request: Request, _: CurrentUser) -> Response:
    """Figures in Prometheus' text format."""
    figures: Metrics = request.app.state.metrics
    return Response(figures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/audit")
def audit(_: Operator, session: ReadSession, limit: Limit = PAGE, after: After = None) -> Page[AuditView]:
    """Who did what to which thing, newest first."""
    rows, following = page_by_id(session, select(AuditEntry), col(AuditEntry.id), after, limit, descending=True)
    items = [
        AuditView(
            id=row.id or 0, at=row.at, by=row.user_name, action=row.action, subject=row.subject, detail=row.detail
        )
        for row in rows
    ]
    return Page(items=items, next=following)


def _database_answers(ctx: Context) -> bool:
    try:
        with ctx.db.read() as session:
            return bool(session.execute(text("SELECT 1")).scalar_one() == 1)
    except SQLAlchemyError:
        return False
