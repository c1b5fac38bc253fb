"""A managed server's starts and their logs: the end of one, a search through it, all of it, and as it grows."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from api import logfeed, sse
from api.deps import PAGE, After, Ctx, Id, Limit, ReadSession, Reviewer
from api.jsonbody import make_router
from db.errors import NotFound
from inference.backends import lives, service
from inference.backends.lives import Level, LifeView, LogView
from inference.backends.logs.folding import Wanted
from inference.backends.logs.reading import log_file, read_back, whole
from inference.model import Page

router = make_router(tag="backends", prefix="/backends")

MAX_TAIL = 10_000
MAX_Q = 200

Start = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="A start's number; the current or last without it.")
]
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/{backend_id}/logs", response_model=LogView, responses=_TEXT)
def show_log(
    _: Reviewer,
    request: Request,
    backend_id: Id,
    ctx: Ctx,
    session: ReadSession,
    tail: Annotated[int, Query(ge=1, le=MAX_TAIL, description="Lines from the end.")] = 200,
    q: Annotated[str, Query(max_length=MAX_Q, description="Only lines that hold this, whatever the case.")] = "",
    level: Annotated[Level, Query(description="Only lines as grave as this, or graver.")] = "info",
    start: Start = None,
    before: Annotated[
        int | None, Query(ge=0, lt=2**63, description="The `before` of an answer: what is older.")
    ] = None,
) -> Response:
    """The end of a start's log, keys masked, equal lines in a row folded: text, or with `Accept: application/json` an object.

    `X-Log-Position` (text) and `position` (object) are where `logs/stream?from=` goes on. One call looks at a bounded part of a
    large log: `before` (header `X-Log-Before`), where there is one, is where the next goes on.
    """
    backend = service.get_backend(session, backend_id)
    row = lives.find_start(session, backend, start)
    found = read_back(log_file(ctx.settings, row), tail, service.known_secrets(backend), Wanted(q, level), before)
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse(lives.log_view(row, found).model_dump())
    headers = {"X-Log-Position": lives.position_of(row, found.position)}
    if found.before is not None:
        headers["X-Log-Before"] = str(found.before)
    return PlainTextResponse("\n".join(map(str, found.lines)), headers=headers)


@router.get("/{backend_id}/logs/download", response_class=PlainTextResponse)
def download_log(_: Reviewer, backend_id: Id, ctx: Ctx, session: ReadSession, start: Start = None) -> StreamingResponse:
    """All that is kept of a start's log, keys masked, as a file; nothing is folded."""
    backend = service.get_backend(session, backend_id)
    row = lives.find_start(session, backend, start)
    path = log_file(ctx.settings, row)
    if path is None or row is None:
        raise NotFound("log", f"of {f'start {row.number}' if row is not None else 'a start'} of backend {backend.name}")
    name = f"backend-{backend_id}-start-{row.number}.log"
    return StreamingResponse(
        whole(path, service.known_secrets(backend)),
        media_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


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
    form: Annotated[
        Literal["text", "lines"], Query(description="`lines`: events `lines` with what `logs` has.")
    ] = "text",
) -> AsyncIterator[ServerSentEvent]:
    """The log as it grows, as events `log` (data: text); from `Last-Event-ID`, else `from`, else the last 64 KiB.

    A reader who is more than 1 MiB behind is told of it (`skipped`, data: bytes) and goes on near the end. `restart` begins the
    log of another start.
    """

    def read(start_id: int, offset: int) -> logfeed.News:
        with ctx.db.read() as session:
            return logfeed.what_follows(session, ctx.settings, backend_id, start_id, offset)

    async for event in sse.log_lines(request, read, position, as_lines=form == "lines"):
        yield event


@router.get("/{backend_id}/starts")
def list_starts(
    _: Reviewer, backend_id: Id, ctx: Ctx, session: ReadSession, after: After = None, limit: Limit = PAGE
) -> Page[LifeView]:
    """Every start, newest first: when, how far, how it ended and why, and how much of its log is kept."""
    return lives.list_lives(session, ctx.settings, backend_id, after, limit)
