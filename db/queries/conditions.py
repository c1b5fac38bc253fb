"""A filter as SQL over `samples`.

Every condition is false, never NULL, where a sample lacks the value, so that its negation is the exact complement.

PostgreSQL's planner knows how many rows a value has; SQLite's does not, and a wrong guess reads a whole run for six
samples, or gathers half a million ids to show fifty. So on SQLite each condition is first asked, from its index alone and
no further than `_RARE`, how many rows it has: a rare one leads (its ids are looked up, nothing else is read), any other is
checked sample by sample along the list's own order.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, not_, or_, select
from sqlalchemy.orm import Mapped
from sqlmodel import Session, col

from db.filters import NONE, Condition, Filter, Span
from db.kinds import kind_bits
from db.queries.anyof import any_of
from db.tables import Review, Sample, SampleFlag, SampleTag, Tag, User

Clause = ColumnElement[bool]
Builder = Callable[["_Scope", Condition], Clause]
_RARE = 5_000


def is_sqlite(s: Session) -> bool:
    """Whether the session talks to SQLite."""
    return s.get_bind().dialect.name == "sqlite"


def where(s: Session, run_id: int, flt: Filter) -> list[Clause]:
    """The conditions that samples of the run inside the filter meet; all must hold."""
    scope = _Scope(s, run_id, flt.sort)
    clauses = [_clause(scope, condition) for condition in flt.conditions]
    if scope.led:  # with the run's indexes out of its sight, SQLite has no way left but the ids of the rare condition
        return [func.coalesce(col(Sample.run_id), 0) == run_id, *clauses]
    return [col(Sample.run_id) == run_id, *clauses]


def _clause(scope: "_Scope", condition: Condition) -> Clause:
    clause = _BUILDERS[condition.field](scope, condition)
    if not condition.negated:
        return clause
    return not_(func.coalesce(clause, false()) if condition.field in _NULLABLE else clause)


class _Scope:
    """The run, the order and the database a filter is built for."""

    def __init__(self, s: Session, run_id: int, sort: str) -> None:
        self.run_id = run_id
        self.sqlite = is_sqlite(s)
        self.sorted_by = sort.removeprefix("-")
        self.led = False
        self._session = s

    def any_of(self, column: Any, values: Sequence[str]) -> Clause:
        return any_of(column, values, sqlite=self.sqlite)

    def leads(self, ids: Select[int]) -> Clause | None:
        """The samples among `ids` where they are few (SQLite only)."""
        if not self.sqlite:
            return None
        few = ids.limit(_RARE + 1).subquery()
        if self._session.execute(select(func.count()).select_from(few)).scalar_one() > _RARE:
            return None
        self.led = True
        return col(Sample.id).in_(ids)

    def contains(self, column: Mapped[str], needle: str) -> Clause:
        if self.sqlite and not needle.isascii():  # SQLite's LIKE folds the case of ASCII letters only
            found: Clause = func.draftmill_contains(column, needle.lower()) == 1
            return found
        escaped = needle.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        pattern = f"%{escaped}%"
        return column.like(pattern, escape="\\") if self.sqlite else column.ilike(pattern, escape="\\")


def _column(name: str) -> Builder:
    """A value in a column of the sample that has an index within the run."""
    column = getattr(Sample, name)

    def build(scope: _Scope, condition: Condition) -> Clause:
        clause = scope.any_of(column, condition.values)
        led = None if condition.negated else scope.leads(_ids_in_run(scope, clause))
        return clause if led is None else led

    return build


def _number(name: str, *, indexed: bool = False) -> Builder:
    column = getattr(Sample, name)

    def build(scope: _Scope, condition: Condition) -> Clause:
        clause = _within(column, condition.spans)
        if not indexed or condition.negated or not scope.sqlite or scope.sorted_by == condition.field:
            return clause
        led = scope.leads(_ids_in_run(scope, clause))
        # a common range must not tempt SQLite to gather and sort all of it
        return _within(func.coalesce(column, -1), condition.spans) if led is None else led

    return build


def _within(column: Any, spans: Sequence[Span]) -> Clause:
    return or_(*(_in_span(column, span) for span in spans))


def _in_span(column: Any, span: Span) -> Clause:
    if span.start is not None and span.stop == span.start + 1:
        return col(column) == span.start
    lower = column >= (0 if span.start is None else span.start)  # also keeps out what has no number
    return lower if span.stop is None else and_(lower, column < span.stop)


def _ids_in_run(scope: _Scope, clause: Clause) -> Select[int]:
    return select(Sample.__table__.c.id).where(col(Sample.run_id) == scope.run_id, clause)  # type: ignore[attr-defined]


def _hanging(scope: _Scope, condition: Condition, table: Any, *clauses: Clause) -> Clause:
    """Samples with a row in a table beside them; rows that know an attempt count for the current one alone."""
    here = _here(table, *clauses)
    if condition.negated:
        return here
    led = scope.leads(select(table.sample_id).where(table.run_id == scope.run_id, *clauses))
    if led is None:
        return here
    return and_(led, here) if hasattr(table, "attempt") else led


def _here(table: Any, *clauses: Clause) -> Clause:
    current = [table.attempt == col(Sample.attempt)] if hasattr(table, "attempt") else []
    # by the sample alone: a query that reads the same table beside it would else take it for its own
    return exists().where(table.sample_id == col(Sample.id), *current, *clauses).correlate(Sample)


def _or_none(named: Builder, none: Callable[[], Clause]) -> Builder:
    """Any of the values; the word `none` among them adds the samples that have none."""

    def build(scope: _Scope, condition: Condition) -> Clause:
        if NONE not in condition.values:
            return named(scope, condition)
        values = tuple(value for value in condition.values if value != NONE)
        # as part of an "or" a condition cannot lead: it is built as if negated, which never does
        return or_(none(), *([named(scope, Condition(condition.field, negated=True, values=values))] if values else []))

    return build


def _kind(_scope: _Scope, condition: Condition) -> Clause:
    return col(Sample.kinds).bitwise_and(kind_bits(*condition.values)) != 0


def _flag(scope: _Scope, condition: Condition) -> Clause:
    return _hanging(scope, condition, SampleFlag, scope.any_of(SampleFlag.code, condition.values))


def _tag(scope: _Scope, condition: Condition) -> Clause:
    tags = select(col(Tag.id)).where(scope.any_of(Tag.name, condition.values))
    return _hanging(scope, condition, SampleTag, col(SampleTag.tag_id).in_(tags))


def _verdict(scope: _Scope, condition: Condition) -> Clause:
    return _hanging(scope, condition, Review, scope.any_of(Review.verdict, condition.values))


def _reviewer(scope: _Scope, condition: Condition) -> Clause:
    """Who gave a verdict, wrote a note or set a tag; an emptied review says nothing."""
    users = select(col(User.id)).where(scope.any_of(User.name, condition.values))
    reviewed, tagged = (Review.user_id, SampleTag.user_id)
    here = or_(_here(Review, col(reviewed).in_(users), _says_something()), _here(SampleTag, col(tagged).in_(users)))
    if condition.negated:
        return here
    said = select(col(Review.sample_id)).where(col(Review.run_id) == scope.run_id, col(reviewed).in_(users))
    set_ = select(col(SampleTag.sample_id)).where(col(SampleTag.run_id) == scope.run_id, col(tagged).in_(users))
    both = said.union_all(set_).subquery()
    led = scope.leads(select(both.c.sample_id))
    return here if led is None else and_(led, here)


def _says_something() -> Clause:
    return or_(col(Review.verdict).is_not(None), col(Review.note) != "")


def _search(scope: _Scope, condition: Condition) -> Clause:
    columns = (col(Sample.source_id), col(Sample.prompt_preview), col(Sample.preview))
    return or_(*(scope.contains(column, needle) for needle in condition.values for column in columns))


_NULLABLE = ("finish", "len")
_BUILDERS: dict[str, Builder] = {
    "state": _column("state"),
    "category": _column("category"),
    "source_id": _column("source_id"),
    "len": _number("completion_tokens", indexed=True),
    "turn": _number("turn"),
    "attempts": _number("attempts"),
    "finish": _or_none(_column("finish_reason"), lambda: col(Sample.finish_reason).is_(None)),
    "kind": _or_none(_kind, lambda: col(Sample.kinds) == 0),
    "flag": _or_none(_flag, lambda: not_(_here(SampleFlag))),
    "tag": _or_none(_tag, lambda: not_(_here(SampleTag))),
    "verdict": _or_none(_verdict, lambda: not_(_here(Review, col(Review.verdict).is_not(None)))),
    "reviewer": _or_none(_reviewer, lambda: not_(or_(_here(Review, _says_something()), _here(SampleTag)))),
    "q": _search,
}
