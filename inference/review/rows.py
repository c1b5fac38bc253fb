"""Samples in lists: rows as they stand, with their flags, tags and verdicts, in a fixed number of queries."""

from collections.abc import Sequence

from sqlmodel import Session, col, select

from db.filters import Filter
from db.queries.samples import count_samples, flags_of, list_samples, neighbours, reviews_of, tags_of
from db.tables import Review, Sample, SampleFlag, SampleTag, Tag, User
from inference.model import Page
from inference.review.judged import get_sample
from inference.review.views import FlagView, Neighbours, SampleRow, TagOnSample, VerdictOnSample
from inference.runs.control import get_run

COUNT_CAP = 10_000


def list_sample_rows(
    s: Session, run_id: int, flt: Filter, after: str | None = None, limit: int = 50
) -> Page[SampleRow]:
    """One page of a run's samples in the filter's order.

    Raises:
        NotFound: no such run.
        Invalid: `bad_cursor` or `bad_limit`.
    """
    get_run(s, run_id)
    samples, following = list_samples(s, run_id, flt, after=after, limit=limit)
    return Page(items=sample_rows(s, samples), next=following)


def sample_row(s: Session, sample: Sample) -> SampleRow:
    """One sample as a row."""
    return sample_rows(s, [sample])[0]


def sample_rows(s: Session, samples: Sequence[Sample]) -> list[SampleRow]:
    """Samples as rows, in the order given."""
    flags = flags_of(s, [sample.id for sample in samples if sample.id is not None])
    tags = tags_of(s, samples)
    reviews = reviews_of(s, samples)
    return [
        _row(sample, sample.id, flags[sample.id], tags[sample.id], reviews[sample.id])
        for sample in samples
        if sample.id is not None
    ]


def judged_row(s: Session, sample: Sample) -> SampleRow:
    """A sample as it was with the attempt it names, current or not: tags and verdicts are that attempt's; flags are left out."""
    at = (sample.id, sample.attempt)
    tags = s.exec(
        select(Tag.name, User.name)
        .join(SampleTag, col(SampleTag.tag_id) == col(Tag.id))
        .join(User, col(User.id) == col(SampleTag.user_id))
        .where(col(SampleTag.sample_id) == at[0], col(SampleTag.attempt) == at[1])
        .order_by(col(Tag.name), col(User.name))
    ).all()
    reviews = s.exec(
        select(User.name, Review)
        .join(Review, col(Review.user_id) == col(User.id))
        .where(col(Review.sample_id) == at[0], col(Review.attempt) == at[1])
        .order_by(col(User.name))
    ).all()
    return _row(sample, sample.id or 0, [], tags, reviews)


def flag_view(flag: SampleFlag) -> FlagView:
    """A stored flag, for people."""
    return FlagView(code=flag.code, severity=flag.severity, start=flag.start, end=flag.end, message=flag.message)


def sample_neighbours(s: Session, sample_id: int, flt: Filter) -> Neighbours:
    """The samples before and after this one inside the filter, in its order, and how many there are.

    The sample itself need not be inside any more: judging it may have taken it out, and next still goes on from its place.

    Raises:
        NotFound: no such sample.
    """
    sample = get_sample(s, sample_id)
    before, following = neighbours(s, sample.run_id, sample, flt)
    total, exact = count_samples(s, sample.run_id, flt, cap=COUNT_CAP)
    return Neighbours(previous=before, next=following, total=total, exact=exact)


def _row(
    sample: Sample,
    sample_id: int,
    flags: Sequence[SampleFlag],
    tags: Sequence[tuple[str, str]],
    reviews: Sequence[tuple[str, Review]],
) -> SampleRow:
    return SampleRow(
        id=sample_id,
        run_id=sample.run_id,
        prompt_id=sample.prompt_id,
        source_id=sample.source_id,
        category=sample.category,
        turn=sample.turn,
        repeat=sample.repeat,
        state=sample.state,
        attempt=sample.attempt,
        attempts=sample.attempts,
        finish_reason=sample.finish_reason,
        prompt_tokens=sample.prompt_tokens,
        completion_tokens=sample.completion_tokens,
        reasoning_tokens=sample.reasoning_tokens,
        flags=[flag_view(flag) for flag in flags],
        tags=[TagOnSample(name=name, by=by) for name, by in tags],
        verdicts=[
            VerdictOnSample(by=by, verdict=review.verdict, note=review.note, updated_at=review.updated_at)
            for by, review in reviews
        ],
        error=sample.error,
        error_code=sample.error_code,
        prompt_preview=sample.prompt_preview,
        preview=sample.preview,
    )
