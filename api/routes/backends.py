"""Backends: made, changed, started, stopped, looked at."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import PlainTextResponse

from api import logfeed, sse
from api.deps import PAGE, After, Audit, Ctx, Id, Limit, Operator, ReadSession, Reviewer, WriteSession
from api.etags import check_match, etag_of
from api.jsonbody import make_router
from db.queries.pages import page_of_few
from db.tables import Backend
from inference.backends import service
from inference.backends.logs import reading as logs
from inference.backends.views import BackendView, EventView
from inference.model import Page

router = make_router(tag="backends", prefix="/backends")

Action = Literal["start", "stop", "restart", "probe"]
MAX_TAIL = 10_000


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
def delete_backend(_: Operator, backend_id: Id, request: Request, session: WriteSession, audit: Audit) -> Response:
    """Remove one that is at rest and that no run names."""
    backend = service.get_backend(session, backend_id)
    check_match(request, _etag(backend))
    audit("backend.delete", f"backend/{backend_id}", name=backend.name)
    service.delete_backend(session, backend_id)
    return Response(status_code=204)


@router.post("/{backend_id}/{action}", status_code=202)
def act(user: Operator, backend_id: Id, action: Action, ctx: Ctx, session: WriteSession, audit: Audit) -> BackendView:
    """Ask for a start, stop, restart or probe; watch `observed_state` for what came of it."""
    backend = service.request_action(session, backend_id, action, settings=ctx.settings, user_id=user.id)
    audit(f"backend.{action}", f"backend/{backend_id}")
    return service.backend_view(session, backend)


@router.get("/{backend_id}/logs", response_class=PlainTextResponse)
def show_log(
    _: Reviewer,
    backend_id: Id,
    ctx: Ctx,
    session: ReadSession,
    tail: Annotated[int, Query(ge=1, le=MAX_TAIL, description="Lines from the end.")] = 200,
) -> PlainTextResponse:
    """The end of the current or last start's log, keys masked; `X-Log-Position` is where `logs/stream?from=` goes on."""
    backend = service.get_backend(session, backend_id)
    start = service.current_start(session, backend)
    position = logfeed.end_position(ctx.settings, start)
    text = logs.read_tail(ctx.settings, start, tail, service.known_secrets(backend))
    return PlainTextResponse(text, headers={"X-Log-Position": position})


def _must_exist(backend_id: Id, session: ReadSession) -> None:
    service.get_backend(session, backend_id)


@router.get("/{backend_id}/logs/stream", response_class=EventSourceResponse, dependencies=[Depends(_must_exist)])
async def stream_log(
    _: Reviewer,
    backend_id: Id,
    ctx: Ctx,
    request: Request,
    position: Annotated[
        str, Query(alias="from", pattern=r"^(\d+-\d+)?$", description="`start-offset`, in bytes.")
    ] = "",
) -> AsyncIterator[ServerSentEvent]:
    """The log as it grows, as events `log` (data: text); from `Last-Event-ID`, else `from`, else the last 64 KiB."""

    def read(start_id: int, offset: int) -> tuple[int, int, str]:
        with ctx.db.read() as session:
            return logfeed.read_on(session, ctx.settings, backend_id, start_id, offset)

    async for event in sse.log_lines(request, read, position):
        yield event


@router.get("/{backend_id}/events")
def list_events(
    _: Reviewer, backend_id: Id, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[EventView]:
    """Its history, newest first."""
    return service.list_events(session, backend_id, after, limit)


def _etag(backend: Backend) -> str:
    return etag_of(backend.id, backend.name, backend.url, backend.launch)
