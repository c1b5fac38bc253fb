"""Samples inside a filter: pages, counts, ids, neighbours, and what hangs on each."""

from array import array
from collections.abc import Collection, Iterable, Iterator

from sqlalchemy import func, literal_column, select
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from db.filters import Filter
from db.queries.anyof import any_of
from db.queries.conditions import is_sqlite, where
from db.queries.orders import Order, Place
from db.queries.pages import checked_limit
from db.tables import Review, Sample, SampleFlag, SampleTag, Tag, User

_FETCH = 10_000


def list_samples(
    s: Session, run_id: int, flt: Filter, *, after: str | None = None, limit: int = 50
) -> tuple[list[Sample], str | None]:
    """One page in the filter's order, and the `after` of the next (None at the end).

    Raises:
        Invalid: `bad_cursor` (`after` is from another list or order) or `bad_limit`.
    """
    checked_limit(limit)
    order = Order(flt.sort)
    rows = _walk(s, run_id, flt, order, order.read_cursor(after) if after is not None else None, limit + 1)
    more = len(rows) > limit
    return rows[:limit], order.cursor(rows[limit - 1]) if more else None


def count_samples(s: Session, run_id: int, flt: Filter, cap: int = 10_000) -> tuple[int, bool]:
    """How many, and whether that is exact: counting stops at `cap`."""
    inside = select(literal_column("1")).select_from(Sample).where(*where(s, run_id, flt)).limit(cap + 1).subquery()
    count = s.execute(select(func.count()).select_from(inside)).scalar_one()
    return min(count, cap), count <= cap


def iter_sample_ids(s: Session, run_id: int, flt: Filter, batch: int = 1000) -> Iterator[list[int]]:
    """All ids in the filter's order, in lists of up to `batch`.

    The ids are those of the moment of the first step (8 bytes each are held): what is done to one batch neither removes
    nor repeats samples of the next.
    """
    ids: array[int] = array("q")
    for stretch in Order(flt.sort).stretches(None):
        statement = select(col(Sample.id)).where(*where(s, run_id, flt), *stretch.conditions).order_by(*stretch.order)
        ids.extend(s.execute(statement, execution_options={"yield_per": _FETCH}).scalars())
    for start in range(0, len(ids), batch):
        yield ids[start : start + batch].tolist()


def neighbours(s: Session, run_id: int, sample: Sample, flt: Filter) -> tuple[int | None, int | None]:
    """The ids before and after the sample's place in the filter's order; the sample itself need not be inside any more."""
    order = Order(flt.sort)
    place = order.place(sample)
    before = _walk(s, run_id, flt, order, place, 1, backwards=True)
    following = _walk(s, run_id, flt, order, place, 1)
    return before[0].id if before else None, following[0].id if following else None


def flags_of(s: Session, ids: Collection[int]) -> dict[int, list[SampleFlag]]:
    """Flags by sample id, in the order of the output; every id asked for is a key."""
    found: dict[int, list[SampleFlag]] = {number: [] for number in ids}
    if not found:
        return found
    statement = select_rows(SampleFlag).where(any_of(SampleFlag.sample_id, found, sqlite=is_sqlite(s)))
    for flag in s.exec(statement.order_by(col(SampleFlag.id))):
        found[flag.sample_id].append(flag)
    return found


def tags_of(s: Session, samples: Iterable[Sample]) -> dict[int, list[tuple[str, str]]]:
    """(tag name, user name) by sample id, of each sample's current attempt; every sample asked for is a key."""
    pairs: dict[int, list[tuple[str, str]]] = {sample.id: [] for sample in samples if sample.id is not None}
    if not pairs:
        return pairs
    statement = (
        select(col(SampleTag.sample_id), col(Tag.name), col(User.name))
        .join(Tag, col(Tag.id) == col(SampleTag.tag_id))
        .join(User, col(User.id) == col(SampleTag.user_id))
        .join(Sample, (col(Sample.id) == col(SampleTag.sample_id)) & (col(Sample.attempt) == col(SampleTag.attempt)))
        .where(any_of(SampleTag.sample_id, pairs, sqlite=is_sqlite(s)))
        .order_by(col(SampleTag.created_at), col(Tag.id), col(User.id))
    )
    for sample_id, tag, user in s.execute(statement):
        pairs[sample_id].append((tag, user))
    return pairs


def reviews_of(s: Session, samples: Iterable[Sample]) -> dict[int, list[tuple[str, Review]]]:
    """(user name, review) by sample id, of each sample's current attempt; every sample asked for is a key."""
    reviews: dict[int, list[tuple[str, Review]]] = {sample.id: [] for sample in samples if sample.id is not None}
    if not reviews:
        return reviews
    statement = (
        select(col(User.name), Review)
        .join(User, col(User.id) == col(Review.user_id))
        .join(Sample, (col(Sample.id) == col(Review.sample_id)) & (col(Sample.attempt) == col(Review.attempt)))
        .where(any_of(Review.sample_id, reviews, sqlite=is_sqlite(s)))
        .order_by(col(Review.created_at), col(User.id))
    )
    for name, review in s.execute(statement):
        reviews[review.sample_id].append((name, review))
    return reviews


def _walk(
    s: Session, run_id: int, flt: Filter, order: Order, after: Place | None, limit: int, *, backwards: bool = False
) -> list[Sample]:
    """Up to `limit` samples beyond a place."""
    rows: list[Sample] = []
    for stretch in order.stretches(after, backwards=backwards):
        statement = select_rows(Sample).where(*where(s, run_id, flt), *stretch.conditions).order_by(*stretch.order)
        rows.extend(s.exec(statement.limit(limit - len(rows))))
        if len(rows) >= limit:
            break
    return rows
