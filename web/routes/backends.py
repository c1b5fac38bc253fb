"""Backends: the list, and one server's page with its figures, its log and its probe."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.responses import Response

from api.deps import Audit, Ctx, Id, Operator, ReadSession, Reviewer, WriteSession
from inference.backends import figures, lives, service
from inference.backends.views import BackendView
from inference.context import Context
from inference.runs.uses import runs_on
from web import backends as models
from web import logview, machine, probe, timelines
from web.launchform import first_command
from web.shell import Twin, page, see

router = APIRouter(prefix="/backends")

EVENTS = 50
STARTS = 20
SPARK_MINUTES = 30
WINDOWS = ((15, "15 min"), (60, "1 h"), (360, "6 h"))
"""Minutes of the charts, to choose from; the first is shown unasked"""


@router.get("")
def list_backends(request: Request, _: Reviewer, session: ReadSession, part: str = "") -> Response:
    """All of them, with the GPUs of this machine and what servers left on it."""
    if part == "gpus":
        return page(request, "gpus.html", {"gpus": machine.gpus(session)})
    if part == "leftovers":
        return page(request, "leftovers.html", {"leftovers": machine.leftovers(session)})
    whole: dict[str, Any] = {}
    if part != "rows":  # the driver is waited for before the database is read
        whole = {"gpus": machine.gpus(session), "leftovers": machine.leftovers(session)}
    found = [service.backend_view(session, backend) for backend in service.list_backends(session)]
    ids = [backend.id for backend in found]
    view = {
        "rows": models.rows(found, figures.recent_series(session, ids, SPARK_MINUTES), runs_on(session, ids)),
        "twin": Twin("/api/v1/backends"),
        **whole,
    }
    return page(request, "backends.html", view, block="fleet" if part == "rows" else None)


@router.get("/{backend_id}")
def show_backend(
    request: Request, backend_id: Id, _: Reviewer, ctx: Ctx, session: ReadSession, part: str = "", minutes: int = 0
) -> Response:
    """One server: state and evidence, figures, log, probe, command, history; `part` draws one live part of it."""
    row = service.get_backend(session, backend_id)
    backend = service.backend_view(session, row)
    view: dict[str, Any] = {"backend": backend}
    if part in {"standing", "evidence"}:
        view |= _standing(session, backend)
    elif part == "diagnosis":
        pass
    elif part == "figures":
        view |= _figures(session, backend, minutes)
    elif part == "past":
        view |= _past(ctx, session, backend)
    else:
        part = ""
        view |= _standing(session, backend) | _figures(session, backend, minutes) | _past(ctx, session, backend)
        view |= {
            "log": logview.log_panel(session, ctx.settings, row, request.query_params),
            "probe": probe.report(backend.probe),
            "twin": Twin(f"/api/v1/backends/{backend_id}"),
        }
    return page(request, "backend.html", view, block=part or None)


def _standing(session: Session, backend: BackendView) -> dict[str, Any]:
    """State, evidence and what may be done: cheap enough for every other second of every viewer."""
    runs = tuple(runs_on(session, [backend.id]).get(backend.id, ()))
    return {"standing": models.standing(backend, runs), "runs": runs}


def _figures(session: Session, backend: BackendView, minutes: int) -> dict[str, Any]:
    offered = [length for length, _ in WINDOWS]
    chosen = minutes if minutes in offered else offered[0]
    series = figures.figure_series(session, backend.id, chosen)
    latest = models.current_figures(backend)
    return {
        "charts": timelines.timelines(series, latest) if series.points or latest is not None else (),
        "latest": latest,
        "minutes": chosen,
        "windows": WINDOWS,
    }


def _past(ctx: Context, session: Session, backend: BackendView) -> dict[str, Any]:
    unstarted = backend.start_number is None and backend.launch is not None
    return {
        "command": first_command(ctx.settings, backend.launch or {}) if unstarted else models.command_text(backend),
        "events": service.list_events(session, backend.id, None, EVENTS).items,
        "starts": lives.list_lives(session, ctx.settings, backend.id, None, STARTS).items,
    }


@router.post("/{backend_id}/delete")
def delete_backend(backend_id: Id, _: Operator, ctx: Ctx, session: WriteSession, note: Audit) -> Response:
    """Remove one at rest."""
    service.delete_backend(session, ctx.settings, backend_id)
    note("backend.delete", f"backend/{backend_id}")
    return see("/backends")


@router.post("/{backend_id}/{action}")
def act(
    backend_id: Id,
    action: Literal["start", "stop", "restart", "probe", "kill", "forget"],
    user: Operator,
    ctx: Ctx,
    session: WriteSession,
    note: Audit,
) -> Response:
    """Ask for something; the supervisor does it."""
    service.request_action(session, backend_id, action, settings=ctx.settings, user_id=user.id)
    note(f"backend.{action}", f"backend/{backend_id}")
    return see(f"/backends/{backend_id}")
