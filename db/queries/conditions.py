"""A filter as SQL over `samples`.

Tags, verdicts, reviewers and flags are looked up from their own narrow indexes (`… IN (SELECT …)` within the run), so that
a rare one is found without reading the run. Every condition is false, never NULL, where a sample lacks the value, so that
its negation is the exact complement.
"""

from collections.abc import Callable

from sqlalchemy import ColumnElement, Select, and_, exists, false, func, not_, or_, select, tuple_
from sqlalchemy.orm import Mapped
from sqlmodel import Session, col

from db.filters import NONE, Condition, Filter, Span
from db.kinds import kind_bits
from db.queries.anyof import any_of
from db.tables import Review, Sample, SampleFlag, SampleTag, Tag, User

Builder = Callable[["_Scope", Condition], ColumnElement[bool]]


def is_sqlite(s: Session) -> bool:
    """Whether the session talks to SQLite."""
    return s.get_bind().dialect.name == "sqlite"


def where(s: Session, run_id: int, flt: Filter) -> list[ColumnElement[bool]]:
    """The conditions that samples of the run inside the filter meet; all must hold."""
    scope = _Scope(run_id, sqlite=is_sqlite(s))
    conditions: list[ColumnElement[bool]] = [col(Sample.run_id) == run_id]
    for condition in flt.conditions:
        expression = _BUILDERS[condition.field](scope, condition)
        conditions.append(not_(func.coalesce(expression, false())) if condition.negated else expression)
    return conditions


class _Scope:
    """The run and the database a filter is built for."""

    def __init__(self, run_id: int, *, sqlite: bool) -> None:
        self.run_id = run_id
        self.sqlite = sqlite

    def any_of(self, column: object, values: tuple[str, ...]) -> ColumnElement[bool]:
        return any_of(column, values, sqlite=self.sqlite)

    def contains(self, column: Mapped[str], needle: str) -> ColumnElement[bool]:
        if self.sqlite and not needle.isascii():  # SQLite's LIKE folds the case of ASCII letters only
            found: ColumnElement[bool] = func.draftmill_contains(column, needle.lower()) == 1
            return found
        escaped = needle.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        pattern = f"%{escaped}%"
        return column.like(pattern, escape="\\") if self.sqlite else column.ilike(pattern, escape="\\")

    def of_current_attempt(self, rows: Select[int, int]) -> ColumnElement[bool]:
        return tuple_(col(Sample.id), col(Sample.attempt)).in_(rows)


def _column(name: str) -> Builder:
    column = getattr(Sample, name)
    return lambda scope, condition: scope.any_of(column, condition.values)


def _number(name: str) -> Builder:
    column = getattr(Sample, name)

    def span(wanted: Span) -> ColumnElement[bool]:
        if wanted.start is not None and wanted.stop == wanted.start + 1:
            exact: ColumnElement[bool] = column == wanted.start
            return exact
        bounds = [] if wanted.start is None else [column >= wanted.start]
        return and_(*bounds, *([] if wanted.stop is None else [column < wanted.stop]))

    return lambda _scope, condition: or_(*map(span, condition.spans))


def _or_none(named: Builder, none: Callable[["_Scope"], ColumnElement[bool]]) -> Builder:
    """Any of the values; the word `none` among them adds the samples that have none."""

    def build(scope: _Scope, condition: Condition) -> ColumnElement[bool]:
        values = tuple(value for value in condition.values if value != NONE)
        parts = [named(scope, Condition(condition.field, condition.negated, values))] if values else []
        return or_(*parts, *([none(scope)] if NONE in condition.values else []))

    return build


def _finish(scope: _Scope, condition: Condition) -> ColumnElement[bool]:
    return scope.any_of(Sample.finish_reason, condition.values)


def _kind(_scope: _Scope, condition: Condition) -> ColumnElement[bool]:
    return col(Sample.kinds).bitwise_and(kind_bits(*condition.values)) != 0


def _flag(scope: _Scope, condition: Condition) -> ColumnElement[bool]:
    rows = select(col(SampleFlag.sample_id)).where(col(SampleFlag.run_id) == scope.run_id)
    return col(Sample.id).in_(rows.where(scope.any_of(SampleFlag.code, condition.values)))


def _tag(scope: _Scope, condition: Condition) -> ColumnElement[bool]:
    tags = select(col(Tag.id)).where(scope.any_of(Tag.name, condition.values))
    rows = select(col(SampleTag.sample_id), col(SampleTag.attempt)).where(
        col(SampleTag.run_id) == scope.run_id, col(SampleTag.tag_id).in_(tags)
    )
    return scope.of_current_attempt(rows)


def _verdict(scope: _Scope, condition: Condition) -> ColumnElement[bool]:
    rows = select(col(Review.sample_id), col(Review.attempt)).where(
        col(Review.run_id) == scope.run_id, scope.any_of(Review.verdict, condition.values)
    )
    return scope.of_current_attempt(rows)


def _reviewer(scope: _Scope, condition: Condition) -> ColumnElement[bool]:
    users = select(col(User.id)).where(scope.any_of(User.name, condition.values))
    reviews = select(col(Review.sample_id), col(Review.attempt)).where(
        col(Review.run_id) == scope.run_id, col(Review.user_id).in_(users), _says_something()
    )
    tags = select(col(SampleTag.sample_id), col(SampleTag.attempt)).where(
        col(SampleTag.run_id) == scope.run_id, col(SampleTag.user_id).in_(users)
    )
    return or_(scope.of_current_attempt(reviews), scope.of_current_attempt(tags))


def _says_something() -> ColumnElement[bool]:
    return or_(col(Review.verdict).is_not(None), col(Review.note) != "")


def _review_here(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(
        col(Review.sample_id) == col(Sample.id), col(Review.attempt) == col(Sample.attempt), *conditions
    )


def _tag_here() -> ColumnElement[bool]:
    return exists().where(col(SampleTag.sample_id) == col(Sample.id), col(SampleTag.attempt) == col(Sample.attempt))


def _search(scope: _Scope, condition: Condition) -> ColumnElement[bool]:
    columns = (col(Sample.source_id), col(Sample.prompt_preview), col(Sample.preview))
    return or_(*(scope.contains(column, needle) for needle in condition.values for column in columns))


_BUILDERS: dict[str, Builder] = {
    "state": _column("state"),
    "category": _column("category"),
    "source_id": _column("source_id"),
    "len": _number("completion_tokens"),
    "turn": _number("turn"),
    "attempts": _number("attempts"),
    "finish": _or_none(_finish, lambda _: col(Sample.finish_reason).is_(None)),
    "kind": _or_none(_kind, lambda _: col(Sample.kinds) == 0),
    "flag": _or_none(_flag, lambda _: not_(exists().where(col(SampleFlag.sample_id) == col(Sample.id)))),
    "tag": _or_none(_tag, lambda _: not_(_tag_here())),
    "verdict": _or_none(_verdict, lambda _: not_(_review_here(col(Review.verdict).is_not(None)))),
    "reviewer": _or_none(_reviewer, lambda _: not_(or_(_review_here(_says_something()), _tag_here()))),
    "q": _search,
}
