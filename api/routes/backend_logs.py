"""A managed server's log: its end, and as it grows."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import PlainTextResponse

from api import logfeed, sse
from api.deps import Ctx, Id, ReadSession, Reviewer
from api.jsonbody import make_router
from inference.backends import service
from inference.backends.logs import reading as logs

router = make_router(tag="backends", prefix="/backends")

MAX_TAIL = 10_000


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
