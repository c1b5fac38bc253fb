"""Backends: made, changed, started, stopped, looked at."""

from typing import Literal

from fastapi import Request, Response

from api.deps import PAGE, After, Audit, Ctx, Id, Limit, Operator, ReadSession, Reviewer, WriteSession
from api.etags import check_match, etag_of
from api.jsonbody import make_router
from db.queries.pages import page_of_few
from db.tables import Backend
from inference.backends import service
from inference.backends.views import BackendView, EventView
from inference.model import Page

router = make_router(tag="backends", prefix="/backends")

Action = Literal["start", "stop", "restart", "kill", "probe", "forget"]


@router.get("")
def list_backends(_: Reviewer, session: ReadSession, limit: Limit = PAGE, after: After = None) -> Page[BackendView]:
    """All of them, by name."""
    rows, following = page_of_few(service.list_backends(session), lambda backend: (backend.name,), after, limit)
    return Page(items=[service.backend_view(session, backend) for backend in rows], next=following)


@router.post("", status_code=201)
def create_backend(
    user: Operator, body: service.NewBackend, ctx: Ctx, session: WriteSession, audit: Audit, response: Response
) -> BackendView:
    """A new backend, at rest."""
    backend = service.create_backend(session, ctx.settings, body, user.id)
    audit("backend.create", f"backend/{backend.id}", name=backend.name, kind=backend.kind)
    response.headers["Location"] = f"/api/v1/backends/{backend.id}"
    return service.backend_view(session, backend)


@router.get("/{backend_id}")
def get_backend(_: Reviewer, backend_id: Id, session: ReadSession, response: Response) -> BackendView:
    """One, as it stands."""
    backend = service.get_backend(session, backend_id)
    response.headers["ETag"] = _etag(backend)
    return service.backend_view(session, backend)


@router.patch("/{backend_id}")
def change_backend(
    _: Operator,
    backend_id: Id,
    body: service.BackendChanges,
    request: Request,
    ctx: Ctx,
    session: WriteSession,
    audit: Audit,
    response: Response,
) -> BackendView:
    """Change how it is named, started or reached; the latter two only while it is at rest."""
    check_match(request, _etag(service.get_backend(session, backend_id)))
    backend = service.patch_backend(session, ctx.settings, backend_id, body)
    audit("backend.change", f"backend/{backend_id}", fields=sorted(body.model_fields_set))
    response.headers["ETag"] = _etag(backend)
    return service.backend_view(session, backend)


@router.delete("/{backend_id}", status_code=204)
def delete_backend(
    _: Operator, backend_id: Id, request: Request, ctx: Ctx, session: WriteSession, audit: Audit
) -> Response:
    """Remove one that is at rest and that no run names, with its logs."""
    backend = service.get_backend(session, backend_id)
    check_match(request, _etag(backend))
    audit("backend.delete", f"backend/{backend_id}", name=backend.name)
    service.delete_backend(session, ctx.settings, backend_id)
    return Response(status_code=204)


@router.post("/{backend_id}/{action}", status_code=202)
def act(user: Operator, backend_id: Id, action: Action, ctx: Ctx, session: WriteSession, audit: Audit) -> BackendView:
    """Ask for a start, stop, restart, kill, probe or forget; watch `observed_state` for what came of it."""
    backend = service.request_action(session, backend_id, action, settings=ctx.settings, user_id=user.id)
    audit(f"backend.{action}", f"backend/{backend_id}")
    return service.backend_view(session, backend)


@router.get("/{backend_id}/events")
def list_events(
    _: Reviewer, backend_id: Id, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[EventView]:
    """Its history, newest first."""
    return service.list_events(session, backend_id, after, limit)


def _etag(backend: Backend) -> str:
    return etag_of(backend.id, backend.name, backend.url, backend.launch)
