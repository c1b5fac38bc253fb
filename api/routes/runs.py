"""Runs: previewed, launched, steered, watched."""

from collections.abc import AsyncIterator

from fastapi import Depends, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from api import sse
from api.auth import audit as audit_log
from api.deps import PAGE, After, Audit, Ctx, Id, Limit, Operator, ReadSession, RequestFilter, Reviewer, WriteSession
from api.etags import check_match, etag_of
from api.jsonbody import make_router
from api.schemas import AffectedRun, RederiveRequest, RegenerateRequest
from db.filters import parse_body
from db.tables import Run
from inference.backends.views import EventView
from inference.model import Page
from inference.runs import control, launch, service
from inference.runs.behind import rederivations
from inference.runs.settings import NewRun
from inference.runs.views import RunPreview, RunStats, RunView

router = make_router(tag="runs", prefix="/runs")


def _etag(run: Run) -> str:
    return etag_of(run.id, run.state, run.generation)


def _same_as_seen(_: Operator, run_id: Id, request: Request, session: WriteSession) -> None:
    """A run is changed by what is done to it: `If-Match` holds for its actions, in the very transaction that does them."""
    if "if-match" in request.headers:
        check_match(request, _etag(control.get_run(session, run_id)))


@router.get("")
def list_runs(_: Reviewer, session: ReadSession, limit: Limit = PAGE, after: After = None) -> Page[RunView]:
    """All of them, newest first."""
    return service.list_runs(session, after, limit)


@router.post("", status_code=201)
def create_run(
    user: Operator, body: NewRun, ctx: Ctx, session: WriteSession, audit: Audit, response: Response
) -> RunView:
    """Freeze the settings and queue the run; it starts when one of its backends is ready."""
    run = launch.create_run(session, ctx, body, user.id)
    assert run.id is not None  # noqa: S101  (flushed)
    audit("run.launch", f"run/{run.id}", name=run.name, fingerprint=run.fingerprint)
    response.headers["Location"] = f"/api/v1/runs/{run.id}"
    return service.run_view(session, run.id)


@router.post("/preview")
def preview_run(_: Operator, body: NewRun, ctx: Ctx, session: ReadSession) -> RunPreview:
    """What a launch would do: every value resolved and where it came from, and the first prompt as it would be sent."""
    return launch.preview_run(session, ctx, body)


@router.get("/{run_id}")
def get_run(_: Reviewer, run_id: Id, session: ReadSession, response: Response) -> RunView:
    """One, as it stands."""
    response.headers["ETag"] = _etag(control.get_run(session, run_id))
    return service.run_view(session, run_id)


@router.delete("/{run_id}", status_code=204)
def delete_run(user: Operator, run_id: Id, request: Request, ctx: Ctx) -> Response:
    """Remove one that is at rest, with its samples, ids, judgements and exports."""
    with ctx.db.read() as session:
        check_match(request, _etag(control.get_run(session, run_id)))
    control.delete_run(ctx, run_id)
    with ctx.db.write() as session:
        audit_log.record(session, user, "run.delete", f"run/{run_id}")
    return Response(status_code=204)


@router.post("/{run_id}/pause", status_code=202, dependencies=[Depends(_same_as_seen)])
def pause_run(user: Operator, run_id: Id, session: WriteSession, audit: Audit) -> RunView:
    """Send nothing more; what is in flight may finish."""
    control.pause_run(session, run_id, by=user.name)
    audit("run.pause", f"run/{run_id}")
    return service.run_view(session, run_id)


@router.post("/{run_id}/resume", status_code=202, dependencies=[Depends(_same_as_seen)])
def resume_run(_: Operator, run_id: Id, session: WriteSession, audit: Audit) -> RunView:
    """Go on with a paused run."""
    control.resume_run(session, run_id)
    audit("run.resume", f"run/{run_id}")
    return service.run_view(session, run_id)


@router.post("/{run_id}/cancel", status_code=202, dependencies=[Depends(_same_as_seen)])
def cancel_run(user: Operator, run_id: Id, session: WriteSession, audit: Audit) -> RunView:
    """Abort what is in flight and skip the rest; what is done stays."""
    control.cancel_run(session, run_id, by=user.name)
    audit("run.cancel", f"run/{run_id}")
    return service.run_view(session, run_id)


@router.post("/{run_id}/retry", status_code=202, dependencies=[Depends(_same_as_seen)])
def retry_run(_: Operator, run_id: Id, session: WriteSession, audit: Audit) -> AffectedRun:
    """Try the failed samples again."""
    count = control.retry_failed(session, run_id)
    audit("run.retry", f"run/{run_id}", count=count)
    return AffectedRun.of(service.run_view(session, run_id), count)


@router.post("/{run_id}/regenerate", status_code=202, dependencies=[Depends(_same_as_seen)])
def regenerate_run(
    _: Operator, run_id: Id, body: RegenerateRequest, ctx: Ctx, session: WriteSession, audit: Audit
) -> AffectedRun:
    """Make every sample of the filter again; old attempts and what was said of them are kept."""
    flt = parse_body(body.filter)
    count = control.regenerate(session, ctx, run_id, flt, body.sampling, body.backend_ids, body.expected_count)
    audit("run.regenerate", f"run/{run_id}", filter=flt.to_json(), count=count)
    return AffectedRun.of(service.run_view(session, run_id), count)


@router.post("/{run_id}/rederive", status_code=202, dependencies=[Depends(_same_as_seen)])
def rederive_run(
    user: Operator, run_id: Id, ctx: Ctx, session: WriteSession, audit: Audit, body: RederiveRequest | None = None
) -> RunView:
    """Segments and flags again, from the stored ids, by the worker; `rederivation` says how far it is and what changed."""
    token_format = None if body is None else body.token_format
    rederivations.request_rederive(session, ctx, run_id, token_format, user.id)
    audit("run.rederive", f"run/{run_id}", **({} if token_format is None else {"token_format": token_format}))
    return service.run_view(session, run_id)


@router.get("/{run_id}/stats")
def run_stats(_: Reviewer, run_id: Id, flt: RequestFilter, session: ReadSession) -> RunStats:
    """Figures of the run, or of a filter within it."""
    return service.run_stats(session, run_id, None if flt.is_empty else flt)


@router.get("/{run_id}/events")
def list_events(
    _: Reviewer, run_id: Id, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[EventView]:
    """Its history, newest first."""
    return service.list_events(session, run_id, after, limit)


def _must_exist(run_id: Id, session: ReadSession) -> None:
    control.get_run(session, run_id)


@router.get("/{run_id}/stream", response_class=EventSourceResponse, dependencies=[Depends(_must_exist)])
async def stream_run(_: Reviewer, run_id: Id, ctx: Ctx, request: Request) -> AsyncIterator[ServerSentEvent]:
    """The run as it stands, as an event `run` whenever it changed, at most once a second."""

    def read() -> RunView:
        with ctx.db.read() as session:
            return service.run_view(session, run_id)

    async for event in sse.changes(request, "run", read):
        yield event
