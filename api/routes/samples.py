"""Samples: listed, read whole, their tokens and attempts."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Query, Request, Response
from starlette.responses import StreamingResponse

from api.deps import PAGE, After, BigId, Ctx, Id, Limit, ReadSession, RequestFilter, Reviewer
from api.jsonbody import make_router
from db.filters import Filter
from db.queries.pages import page_of_few
from inference.context import Context
from inference.model import Page
from inference.review import samples as service
from inference.review.views import AttemptView, Neighbours, SampleRow, SampleTokens, SampleView
from inference.runs import control

router = make_router(tag="samples")

NDJSON = "application/x-ndjson"
BATCH = 500

AttemptNumber = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Left out: the current one.")]


@router.get("/runs/{run_id}/samples", responses={200: {"content": {NDJSON: {}}}}, response_model=Page[SampleRow])
def list_samples(
    _: Reviewer,
    run_id: Id,
    flt: RequestFilter,
    ctx: Ctx,
    session: ReadSession,
    request: Request,
    limit: Limit = PAGE,
    after: After = None,
) -> Page[SampleRow] | Response:
    """Those in the filter, a page at a time; with `Accept: application/x-ndjson` all of them, one a line."""
    control.get_run(session, run_id)
    if NDJSON in request.headers.get("accept", ""):
        first = service.list_sample_rows(session, run_id, flt, after, BATCH)
        return StreamingResponse(_all_rows(ctx, run_id, flt, first), media_type=NDJSON)
    return service.list_sample_rows(session, run_id, flt, after, limit)


def _all_rows(ctx: Context, run_id: int, flt: Filter, page: Page[SampleRow]) -> Iterator[str]:
    """Page by page, each in a short transaction of its own."""
    while True:
        yield "".join(f"{row.model_dump_json()}\n" for row in page.items)
        if page.next is None:
            return
        with ctx.db.read() as session:
            page = service.list_sample_rows(session, run_id, flt, page.next, BATCH)


@router.get("/samples/{sample_id}")
def get_sample(
    user: Reviewer, sample_id: BigId, ctx: Ctx, session: ReadSession, attempt: AttemptNumber = None
) -> SampleView:
    """One, with its segments and what was said of it."""
    return service.sample_view(session, ctx, sample_id, user.id, attempt)


@router.get("/samples/{sample_id}/tokens")
def get_tokens(
    _: Reviewer,
    sample_id: BigId,
    ctx: Ctx,
    session: ReadSession,
    pieces: Annotated[bool, Query(description="Each token for display, too.")] = False,
    attempt: AttemptNumber = None,
) -> SampleTokens:
    """The exact ids, as sent and as received."""
    return service.sample_tokens(session, ctx, sample_id, attempt, pieces)


@router.get("/samples/{sample_id}/attempts")
def list_attempts(
    _: Reviewer, sample_id: BigId, ctx: Ctx, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[AttemptView]:
    """Every attempt, the last one first, the current one marked."""
    found = service.list_attempts(session, ctx, sample_id)
    items, following = page_of_few(found, lambda attempt: (-attempt.number,), after, limit)
    return Page(items=items, next=following)


@router.get("/samples/{sample_id}/neighbours")
def get_neighbours(_: Reviewer, sample_id: BigId, flt: RequestFilter, session: ReadSession) -> Neighbours:
    """The samples before and after this one inside the filter, which it need not be in itself."""
    return service.sample_neighbours(session, sample_id, flt)
