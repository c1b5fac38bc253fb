"""Samples: the list with its filter, and the page of one sample."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlmodel import Session
from starlette.responses import Response

from api.auth import Identity
from api.deps import After, Ctx, Id, ReadSession, Reviewer
from db.errors import DomainError
from db.filters import SAMPLE_STATES, SORTS, Filter
from db.kinds import SEGMENT_KINDS
from db.queries.samples import count_samples
from inference.context import Context
from inference.quality.flags import FLAG_CODES
from inference.review import reviews as reviewing
from inference.review import samples as service
from inference.review.views import MyReview, SampleRow, SampleTokens, SampleView
from inference.runs import service as runs
from inference.tokens.errors import TokensError
from web import charts, readings, words
from web import sample as models
from web.filters import PageFilter, address, chips, form_values
from web.shell import Twin, page

router = APIRouter()

PAGE = 100
NOTHING = MyReview(verdict=None, tags=[], note="", version=0, updated_at=None)
_SORT_WORDS = {
    "id": "first made first",
    "-id": "last made first",
    "len": "shortest first",
    "-len": "longest first",
    "updated": "longest untouched first",
    "-updated": "last changed first",
}


@dataclass(frozen=True, slots=True)
class FlagCount:
    """A flag code on a row, once, however often it was found."""

    code: str
    severity: str
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """A sample in the list, and its page inside the filter."""

    sample: SampleRow
    href: str
    flags: tuple[FlagCount, ...]
    tags: tuple[str, ...]


@router.get("/runs/{run_id}/samples")
def list_samples(
    request: Request, run_id: Id, _: Reviewer, flt: PageFilter, session: ReadSession, after: After = None
) -> Response:
    """Those in the filter, a page at a time."""
    run = runs.run_view(session, run_id)
    found = service.list_sample_rows(session, run_id, flt, after, PAGE)
    total, exact = count_samples(session, run_id, flt)
    base = f"/runs/{run_id}/samples"
    values, kept = form_values(flt)
    view: dict[str, Any] = {
        "run": run,
        "rows": [_row(item, flt) for item in found.items],
        "total": total,
        "exact": exact,
        "chips": chips(flt, base),
        "values": values,
        "kept": kept,
        "open_filters": not flt.is_empty,
        "state_options": [(state, words.word(state)) for state in SAMPLE_STATES],
        "category_options": [(item.category, item.category) for item in run.categories if item.category],
        "flag_options": [*((code, words.word(code)) for code in sorted(FLAG_CODES)), ("none", "none")],
        "tag_options": [*((tag.name, tag.name) for tag in reviewing.list_tags(session)), ("none", "none")],
        "verdict_options": [("good", "good"), ("bad", "bad"), ("unsure", "unsure"), ("none", "none yet")],
        "finish_options": [("stop", "stop"), ("length", "length"), ("none", "none")],
        "kind_options": [(kind, words.word(kind)) for kind in SEGMENT_KINDS],
        "sort_options": [(name, _SORT_WORDS.get(name, name)) for name in SORTS],
        "first_page": address(base, flt.to_query()) if after else None,
        "next_page": address(base, [*flt.to_query(), ("after", found.next)]) if found.next else None,
        "twin": Twin(f"/api/v1/runs/{run_id}/samples", query=address("", flt.to_query()).removeprefix("?")),
    }
    return page(request, "samples.html", view)


def _row(sample: SampleRow, flt: Filter) -> Row:
    counted = Counter((flag.code, flag.severity) for flag in sample.flags)
    flags = tuple(FlagCount(code, severity, n) for (code, severity), n in counted.items())
    tags = tuple(dict.fromkeys(tag.name for tag in sample.tags))
    return Row(sample, models.Address(flt).of(sample.id), flags, tags)


@router.get("/samples/{sample_id}")
def show_sample(
    request: Request,
    sample_id: Id,
    user: Reviewer,
    flt: PageFilter,
    ctx: Ctx,
    session: ReadSession,
    attempt: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    view: str = "split",
    t: str = "",
    prompt: str = "",
    end: str = "",
    tfrom: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """One sample inside a filter: exact tokens beside segments, what the checks say, and my verdict."""
    where = models.Address(flt, view if view in models.VIEWS else "split")
    look = Look(where, attempt, models.token_range(t), bool(prompt), tfrom)
    notice = "Saved. This is the last sample of the filter." if end else ""
    return draw(request, ctx, session, user, sample_id, look, notice=notice)


@dataclass(frozen=True, slots=True)
class Look:
    """How somebody looks at a sample: where in a filter, at which attempt, at which tokens."""

    where: models.Address
    attempt: int | None = None
    marked: tuple[int, int] | None = None
    whole_prompt: bool = False
    start: int | None = None


def draw(
    request: Request,
    ctx: Context,
    session: Session,
    user: Identity,
    sample_id: int,
    look: Look,
    *,
    mine: MyReview | None = None,
    problem: str = "",
    notice: str = "",
    status: int = 200,
) -> Response:
    """The sample page; `mine` replaces what is stored of my review (a form that could not be saved keeps what was typed)."""
    sample = service.sample_view(session, ctx, sample_id, user.id, look.attempt)
    where = look.where
    tokens, missing = _tokens(session, ctx, sample, look)
    neighbours = service.sample_neighbours(session, sample_id, where.flt)
    run = runs.run_view(session, sample.run_id)
    list_base = f"/runs/{sample.run_id}/samples"
    turn = where.carry()
    following = models.VIEWS[(models.VIEWS.index(where.view) + 1) % len(models.VIEWS)]
    same = {} if look.attempt is None else {"attempt": look.attempt}
    seen_by = {name: models.Address(where.flt, name).of(sample_id, **same) for name in models.VIEWS}
    pane = None
    if tokens is not None and where.view in {"split", "raw"}:
        pane = models.token_pane(
            sample, tokens, where, marked=look.marked, whole_prompt=look.whole_prompt, start=look.start
        )
    view: dict[str, Any] = {
        "sample": sample,
        "attempt": sample.attempt_detail,
        "attempts": [
            {"number": item.number, "href": where.of(sample_id, attempt=item.number)}
            for item in service.list_attempts(session, ctx, sample_id)
        ],
        "current_href": where.of(sample_id),
        "matched": models.stop_text(sample.attempt_detail, tokens),
        "sampling": models.sampling_facts(sample.attempt_detail, run.settings),
        "token_format": run.token_format,
        "flags": models.flag_links(sample.flags, where, sample_id, look.attempt),
        "minimap": charts.minimap(sample.segments, sample.flags),
        "segments": models.cards(sample),
        "across": readings.across(sample),
        "across_href": "#engine" if where.view in {"split", "seg"} else f"{seen_by['seg']}#engine",
        "segment_tokens": sum(segment.end - segment.start for segment in sample.segments),
        "tokens": pane,
        "tokens_missing": missing,
        "inspected": _inspected(tokens, look.marked),
        "messages": models.messages(sample.prompt_messages),
        "tools": sample.tools,
        "open_prompt": look.whole_prompt,
        "prompt_href": f"{where.of(sample_id, **same, prompt=1)}#p0",
        "marked": look.marked,
        "view": where.view,
        "view_links": list(seen_by.items()),
        "view_next": models.Address(where.flt, following).of(sample_id, **same),
        "neighbours": neighbours,
        "previous_href": where.of(neighbours.previous) if neighbours.previous is not None else "",
        "next_href": where.of(neighbours.next) if neighbours.next is not None else "",
        "list_href": address(list_base, where.flt.to_query()),
        "chips": chips(where.flt, f"/samples/{sample_id}", [item for item in turn if item[0] == "view"]),
        "carry": address("", turn).removeprefix("?"),
        "here": where.of(sample_id),
        "mine": mine or sample.my_review or NOTHING,
        "tags": reviewing.list_tags(session),
        "others": [item for item in reviewing.list_reviews(session, sample_id) if item.by != user.name],
        "other_tags": [tag for tag in sample.tags if tag.by != user.name],
        "comments": reviewing.list_comments(session, sample_id),
        "problem": problem,
        "notice": notice,
        "twin": Twin(f"/api/v1/samples/{sample_id}"),
    }
    return page(request, "sample.html", view, status=status)


def _tokens(session: Session, ctx: Context, sample: SampleView, look: Look) -> tuple[SampleTokens | None, str]:
    """The tokens, or why they cannot be shown: a tokenizer that is gone must not hide the rest of the page."""
    if sample.attempt_detail is None:
        return None, ""
    try:
        return service.sample_tokens(session, ctx, sample.id, look.attempt, with_pieces=True), ""
    except (DomainError, TokensError) as error:
        return None, error.message


def _inspected(tokens: SampleTokens | None, marked: tuple[int, int] | None) -> object | None:
    if tokens is None or marked is None or not tokens.pieces or marked[0] >= len(tokens.pieces):
        return None
    return tokens.pieces[marked[0]]
