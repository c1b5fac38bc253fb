"""Runs: the list, one run as it goes, and what people do to it."""

from typing import Any, Literal
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.responses import Response

from api.auth import audit
from api.deps import After, Audit, Ctx, Id, Operator, ReadSession, Reviewer, WriteSession
from db.errors import Invalid
from db.filters import Filter, parse_body, parse_query
from inference.backends import service as backends
from inference.export import service as exports
from inference.quality.flags import FLAG_CODES
from inference.runs import control, service
from inference.runs.behind import rederivations
from inference.runs.settings import Sampling
from inference.runs.views import RunView
from inference.tokens.formats import all_formats
from web import charts, words
from web import runs as models
from web.filters import address
from web.forms import Fields, Form
from web.shell import Twin, page, see

router = APIRouter(prefix="/runs")

PAGE = 50
EVENTS = 50
RESAMPLED = ("sampling.temperature", "sampling.top_p", "sampling.max_new_tokens")


@router.get("")
def list_runs(request: Request, _: Reviewer, session: ReadSession, after: After = None, part: str = "") -> Response:
    """All of them, newest first."""
    found = service.list_runs(session, after, PAGE)
    view = {
        "runs": models.rows(found.items),
        "live": address("/runs", [("part", "rows"), *([("after", after)] if after else [])]),
        "first_page": "/runs" if after else None,
        "next_page": address("/runs", [("after", found.next)]) if found.next else None,
        "twin": Twin("/api/v1/runs"),
    }
    return page(request, "runs.html", view, block="rows" if part == "rows" else None)


@router.get("/{run_id}")
def show_run(request: Request, run_id: Id, _: Reviewer, session: ReadSession, part: str = "") -> Response:
    """One run; `part` draws one live part of it."""
    run = service.run_view(session, run_id)
    view: dict[str, Any] = {"run": run}
    if part == "exported":
        view |= _exported(session, run_id)
    elif part == "events":
        view |= {"events": service.list_events(session, run_id, None, EVENTS).items}
    elif part == "rederived":
        view |= {"again": models.rederived(run.rederivation), "samples": f"/runs/{run_id}/samples"}
    elif part == "figures":
        view |= _figures(session, run)
    elif part == "standing":
        view |= _standing(run)
    else:
        part = ""
        view |= _standing(run) | _figures(session, run) | _exported(session, run_id) | _still(session, run)
    return page(request, "run.html", view, block=part or None)


def _standing(run: RunView) -> dict[str, Any]:
    """What kept counters tell: cheap enough for every second of every viewer."""
    samples = f"/runs/{run.id}/samples"
    return {
        "samples": samples,
        "flagged": address(samples, [("-flag", "none")]),
        "bar": charts.bar(run.counts),
        "categories": models.category_rows(run),
    }


def _figures(session: Session, run: RunView) -> dict[str, Any]:
    """What has to be counted over the rows."""
    stats = service.run_stats(session, run.id)
    histogram = charts.histogram(stats.length_histogram)
    return {"stats": stats, "samples": f"/runs/{run.id}/samples", "histogram": histogram}


def _exported(session: Session, run_id: int) -> dict[str, Any]:
    return {"exports": exports.list_exports(session, run_id), "show_run": False, "run_names": {}}


def _still(session: Session, run: RunView) -> dict[str, Any]:
    """What does not move while a run goes."""
    return {
        "events": service.list_events(session, run.id, None, EVENTS).items,
        "settings": models.settings(run.settings),
        "category_options": [(item.category, item.category) for item in run.categories if item.category],
        "again": models.rederived(run.rederivation),
        "read_options": [(item.name, f"{item.name}: {item.title}") for item in all_formats()],
        "flag_options": [(code, words.word(code)) for code in sorted(FLAG_CODES)],
        "format_options": [(item.name, item.name) for item in exports.export_formats()],
        "backend_names": {item.id: item.name for item in backends.list_backends(session)},
        "twin": Twin(f"/api/v1/runs/{run.id}"),
    }


@router.post("/{run_id}/regenerate")
def regenerate(run_id: Id, _: Operator, form: Form, ctx: Ctx, session: WriteSession, note: Audit) -> Response:
    """Make a category, a flag's samples or any filter again; at least one condition must be given."""
    flt = regenerate_filter(form)
    sampling = Sampling.model_validate(form.tree(RESAMPLED).get("sampling", {})).model_dump(exclude_none=True)
    count = control.regenerate(session, ctx, run_id, flt, sampling or None, None, None)
    note("run.regenerate", f"run/{run_id}", filter=flt.to_json(), count=count)
    return see(f"/runs/{run_id}")


def regenerate_filter(form: Fields) -> Filter:
    """The filter that the form stands for.

    Raises:
        Invalid: `filter_empty` (a whole run is not made again by an empty form), or a fault in the filter field.
    """
    items = parse_qsl(form.get("filter").removeprefix("?"), keep_blank_values=True)
    chosen = {name: [form.get(name)] for name in ("category", "flag", "verdict") if form.get(name)}
    written = parse_query(items).to_json()
    both = chosen.keys() & written.keys()
    if both:
        name = min(both)
        raise Invalid(
            "filter_twice", f"{name} is given twice: choose it, or write it in the filter, not both.", field=name
        )
    flt = parse_body({**written, **chosen})
    if flt.is_empty:
        raise Invalid(
            "filter_empty",
            "Say which samples: choose a category, a flag or a verdict, or write a filter.",
            field="filter",
        )
    return flt


@router.post("/{run_id}/rederive")
def rederive(run_id: Id, user: Operator, form: Form, ctx: Ctx, session: WriteSession, note: Audit) -> Response:
    """Queue segmenting and checking again, from the stored ids."""
    token_format = form.get("token_format") or None
    rederivations.request_rederive(session, ctx, run_id, token_format, user.id)
    note("run.rederive", f"run/{run_id}", **({} if token_format is None else {"token_format": token_format}))
    return see(f"/runs/{run_id}#h-rederive")


@router.post("/{run_id}/exports")
def create_export(run_id: Id, user: Operator, form: Form, ctx: Ctx, session: WriteSession, note: Audit) -> Response:
    """Queue an export."""
    items = parse_qsl(form.get("filter").removeprefix("?"), keep_blank_values=True)
    flt = parse_query(items).to_json()
    options = form.json("options", dict) or {}
    export = exports.create_export(session, ctx, run_id, form.get("format"), flt, options, user.id)
    note("export.create", f"export/{export.id}", run=run_id, format=form.get("format"), filter=flt)
    return see(f"/runs/{run_id}#h-export")


@router.post("/{run_id}/delete")
def delete_run(run_id: Id, user: Operator, ctx: Ctx) -> Response:
    """Delete a run at rest, with everything that hangs on it."""
    control.delete_run(ctx, run_id)
    with ctx.db.write() as session:
        audit.record(session, user, "run.delete", f"run/{run_id}")
    return see("/runs")


@router.post("/{run_id}/{action}")
def act(
    run_id: Id,
    action: Literal["pause", "resume", "cancel", "retry"],
    user: Operator,
    session: WriteSession,
    note: Audit,
) -> Response:
    """Pause, resume, cancel, or retry what failed."""
    if action == "pause":
        control.pause_run(session, run_id, by=user.name)
    elif action == "resume":
        control.resume_run(session, run_id)
    elif action == "cancel":
        control.cancel_run(session, run_id, by=user.name)
    else:
        control.retry_failed(session, run_id)
    note(f"run.{action}", f"run/{run_id}")
    return see(f"/runs/{run_id}")
