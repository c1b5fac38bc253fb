"""Backends: the list, a form for a new one, and one server's page with its log and its probe."""

import shlex
from typing import Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import Audit, Ctx, Id, Operator, ReadSession, Reviewer, WriteSession
from inference.backends import service
from inference.backends.logs import reading as logs
from web import charts, probe
from web.shell import Twin, page, see

router = APIRouter(prefix="/backends")

TAIL = 200
EVENTS = 50


@router.get("")
def list_backends(request: Request, _: Reviewer, session: ReadSession, part: str = "") -> Response:
    """All of them."""
    found = [service.backend_view(session, backend) for backend in service.list_backends(session)]
    return page(
        request,
        "backends.html",
        {"backends": found, "twin": Twin("/api/v1/backends")},
        block="rows" if part == "rows" else None,
    )


@router.get("/{backend_id}")
def show_backend(
    request: Request, backend_id: Id, _: Reviewer, ctx: Ctx, session: ReadSession, part: str = ""
) -> Response:
    """One server: state and evidence, log, probe, command, history."""
    row = service.get_backend(session, backend_id)
    backend = service.backend_view(session, row)
    phase = backend.phase
    width = 100 * (phase.done or 0) / phase.total if phase is not None and phase.total else 0
    view: dict[str, Any] = {"backend": backend, "phase_bar": [charts.Part("flight", 0, round(min(width, 100), 2))]}
    if part == "standing":
        return page(request, "backend.html", view, block="standing")
    view |= {
        "command": shlex.join(backend.command) if backend.command else "",
        "log": logs.read_tail(ctx.settings, service.current_start(session, row), TAIL, service.known_secrets(row)),
        "events": service.list_events(session, backend_id, None, EVENTS).items,
        "probe": probe.report(backend.probe),
        "twin": Twin(f"/api/v1/backends/{backend_id}"),
    }
    return page(request, "backend.html", view)


@router.post("/{backend_id}/delete")
def delete_backend(backend_id: Id, _: Operator, session: WriteSession, note: Audit) -> Response:
    """Remove one at rest."""
    service.delete_backend(session, backend_id)
    note("backend.delete", f"backend/{backend_id}")
    return see("/backends")


@router.post("/{backend_id}/{action}")
def act(
    backend_id: Id,
    action: Literal["start", "stop", "restart", "probe"],
    user: Operator,
    ctx: Ctx,
    session: WriteSession,
    note: Audit,
) -> Response:
    """Ask for a start, stop, restart or probe."""
    service.request_action(session, backend_id, action, settings=ctx.settings, user_id=user.id)
    note(f"backend.{action}", f"backend/{backend_id}")
    return see(f"/backends/{backend_id}")
