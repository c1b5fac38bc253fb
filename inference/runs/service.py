"""What pages and REST show of runs. Counters are read as kept; only statistics, asked for by themselves, count rows."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import case, func
from sqlmodel import Session, col, select

from db.filters import Filter
from db.queries.conditions import where
from db.queries.pages import page_by_id
from db.tables import Rederivation, Review, Run, RunBackend, RunCategory, RunEvent, Sample, SampleFlag, SampleTag, Tag
from inference.backends.views import EventView
from inference.model import Page
from inference.runs.backendrows import GOING, left_out
from inference.runs.behind.rederivations import ACTIVE, last_rederivations
from inference.runs.control import allowed_actions, get_run
from inference.runs.switches import default_off, is_wanted
from inference.runs.views import (
    CategoryCounts,
    Checked,
    Counts,
    LeftOut,
    Progress,
    RederivationView,
    RunStats,
    RunView,
)

EDGES: Final = (0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 1 << 31)
"""Bins of the length histogram, in completion tokens: each twice as wide as the one before"""


def run_view(s: Session, run_id: int) -> RunView:
    """One run as it stands.

    Raises:
        NotFound: there is none of that id.
    """
    return _views(s, [get_run(s, run_id)])[0]


def list_runs(s: Session, after: str | None = None, limit: int = 50) -> Page[RunView]:
    """Runs, newest first.

    Raises:
        Invalid: `bad_cursor` or `bad_limit`.
    """
    rows, following = page_by_id(s, select(Run), Run.id, after, limit, descending=True)  # type: ignore[arg-type]  # a column, seen as its value's type
    return Page(items=_views(s, rows), next=following)


def list_events(s: Session, run_id: int, after: str | None = None, limit: int = 50) -> Page[EventView]:
    """A run's history, newest first.

    Raises:
        NotFound: no such run.
        Invalid: `bad_cursor` or `bad_limit`.
    """
    get_run(s, run_id)
    query = select(RunEvent).where(col(RunEvent.run_id) == run_id)
    rows, following = page_by_id(s, query, RunEvent.id, after, limit, descending=True)  # type: ignore[arg-type]  # a column, seen as its value's type
    items = [
        EventView(id=row.id or 0, at=row.at, kind=row.kind, message=row.message, detail=row.detail) for row in rows
    ]
    return Page(items=items, next=following)


def run_stats(s: Session, run_id: int, flt: Filter | None = None) -> RunStats:
    """Figures of a run, or of the samples of a filter. Tags and verdicts are those of current attempts.

    Raises:
        NotFound: no such run.
    """
    run = get_run(s, run_id)
    inside = where(s, run_id, flt or Filter())
    categories = _kept(s, [run_id])[run_id] if flt is None or flt.is_empty else _counted(s, inside)
    done = col(Sample.state) == "done"
    ids = select(col(Sample.id)).where(*inside)
    return RunStats(
        counts=_sum(categories),
        by_category=categories,
        finish_reasons=_grouped(s, col(Sample.finish_reason), inside, done),
        flags=_tally(
            s.execute(
                select(col(SampleFlag.code), func.count(func.distinct(SampleFlag.sample_id)))
                .where(col(SampleFlag.run_id) == run_id, col(SampleFlag.sample_id).in_(ids))
                .group_by(col(SampleFlag.code))
            )
        ),
        verdicts=_tally(
            s.execute(
                select(col(Review.verdict), func.count())
                .join(Sample, (col(Sample.id) == col(Review.sample_id)) & (col(Sample.attempt) == col(Review.attempt)))
                .where(*inside, col(Review.verdict).is_not(None))
                .group_by(col(Review.verdict))
            )
        ),
        tags=_tally(
            s.execute(
                select(col(Tag.name), func.count(func.distinct(SampleTag.sample_id)))
                .join(SampleTag, col(SampleTag.tag_id) == col(Tag.id))
                .join(
                    Sample,
                    (col(Sample.id) == col(SampleTag.sample_id)) & (col(Sample.attempt) == col(SampleTag.attempt)),
                )
                .where(*inside)
                .group_by(col(Tag.name))
            )
        ),
        errors=_grouped(s, col(Sample.error_code), inside, col(Sample.state) == "failed"),
        length_histogram=_histogram(s, [*inside, done, col(Sample.completion_tokens).is_not(None)]),
        progress=_progress(run),
        checked=_checked(run, categories if flt is None or flt.is_empty else _kept(s, [run_id])[run_id]),
    )


def _views(s: Session, runs: Sequence[Run]) -> list[RunView]:
    ids = [run.id for run in runs if run.id is not None]
    backends: dict[int, list[int]] = defaultdict(list)
    query = select(RunBackend).where(col(RunBackend.run_id).in_(ids)).order_by(col(RunBackend.backend_id))
    for row in s.exec(query).all():
        backends[row.run_id].append(row.backend_id)
    kept, jobs = _kept(s, ids), last_rederivations(s, ids)
    out = left_out(s, {run.id: run for run in runs if run.id is not None and run.state in GOING})
    return [
        _view(run, run.id, backends[run.id], kept[run.id], jobs.get(run.id), out.get(run.id, []))
        for run in runs
        if run.id is not None
    ]


def _view(
    run: Run,
    run_id: int,
    backend_ids: list[int],
    categories: list[CategoryCounts],
    job: Rederivation | None,
    out: list[LeftOut],
) -> RunView:
    counts = _sum(categories)
    rederiving = job is not None and job.state in ACTIVE
    return RunView(
        id=run_id,
        name=run.name,
        state=run.state,
        reason_kind=run.reason_kind,
        reason=run.reason,
        prompt_set_id=run.prompt_set_id,
        backend_ids=backend_ids,
        left_out=out,
        counts=counts,
        categories=categories,
        prompt_tokens=sum(category.prompt_tokens for category in categories),
        completion_tokens=sum(category.completion_tokens for category in categories),
        progress=_progress(run),
        checked=_checked(run, categories),
        rederivation=None if job is None else _rederivation(job),
        token_format=run.token_format or run.settings.get("token_format", ""),
        settings=run.settings,
        fingerprint=run.fingerprint,
        allowed=allowed_actions(run, failed=counts.failed, done=counts.done, rederiving=rederiving),
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


def _progress(run: Run) -> Progress:
    return Progress(
        samples_per_s=run.progress.get("samples_per_s"),
        tokens_per_s=run.progress.get("tokens_per_s"),
        eta_s=run.progress.get("eta_s"),
    )


def _checked(run: Run, categories: Sequence[CategoryCounts]) -> Checked:
    if not is_wanted(run.settings.get("checks_off", default_off())):
        return Checked()
    done, total = sum(item.checked for item in categories), sum(item.done for item in categories)
    return Checked(
        done=done, total=total, complete=done == total and run.collection_due == 0, trouble=run.check_trouble
    )


def _rederivation(job: Rederivation) -> RederivationView:
    names = set(RederivationView.model_fields)
    return RederivationView.model_validate(job.model_dump(include=names))


def _kept(s: Session, run_ids: Sequence[int]) -> dict[int, list[CategoryCounts]]:
    found: dict[int, list[CategoryCounts]] = {run_id: [] for run_id in run_ids}
    query = select(RunCategory).where(col(RunCategory.run_id).in_(run_ids)).order_by(col(RunCategory.category))
    for row in s.exec(query).all():
        found[row.run_id].append(CategoryCounts.model_validate(row.model_dump(exclude={"run_id"})))
    return found


def _counted(s: Session, inside: Sequence[Any]) -> list[CategoryCounts]:
    tokens = [func.coalesce(func.sum(column), 0) for column in (Sample.prompt_tokens, Sample.completion_tokens)]
    flagged = func.sum(case((col(Sample.flag_count) > 0, 1), else_=0))
    looked_at = func.sum(case((col(Sample.text_checked) == col(Sample.attempt), 1), else_=0))
    query = select(col(Sample.category), col(Sample.state), func.count(), *[flagged, looked_at, *tokens]).where(*inside)
    figures: dict[str, dict[str, int]] = defaultdict(dict)
    for category, state, count, flags, checked, prompt, completion in s.execute(
        query.group_by(col(Sample.category), col(Sample.state))
    ):
        figures[category][state] = count
        if state == "done":
            figures[category] |= {
                "flagged": int(flags),
                "checked": int(checked),
                "prompt_tokens": int(prompt),
                "completion_tokens": int(completion),
            }
    return [CategoryCounts.model_validate({"category": name, **figures[name]}) for name in sorted(figures)]


def _sum(categories: Iterable[CategoryCounts]) -> Counts:
    sums = dict.fromkeys(Counts.model_fields, 0)
    for category in categories:
        for name in sums:
            sums[name] += getattr(category, name)
    return Counts(**sums)


def _grouped(s: Session, column: Any, inside: Sequence[Any], *more: Any) -> dict[str, int]:
    return _tally(s.execute(select(column, func.count()).where(*inside, *more, column.is_not(None)).group_by(column)))


def _tally(rows: Iterable[Any]) -> dict[str, int]:
    return {name: int(count) for name, count in sorted(tuple(row) for row in rows)}


def _histogram(s: Session, inside: Sequence[Any]) -> list[tuple[int, int, int]]:
    length = col(Sample.completion_tokens)
    number = case(*((length < edge, index) for index, edge in enumerate(EDGES[1:-1])), else_=len(EDGES) - 2)
    rows = s.execute(select(number, func.count()).where(*inside).group_by(number)).all()
    found = {int(index): int(count) for index, count in rows}
    if not found:
        return []
    return [(EDGES[index], EDGES[index + 1], found.get(index, 0)) for index in range(min(found), max(found) + 1)]
