"""A run's counters: kept by whoever changes samples, in the same transaction, so that no page has to count."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, col

from db.queries.conditions import is_sqlite
from db.tables import RunCategory, Sample, SampleFlag

COUNTED = (
    *("pending", "in_flight", "done", "failed", "skipped"),
    *("flagged", "checked", "prompt_tokens", "completion_tokens"),
)
FLAGGED_SEVERITIES = ("warning", "error")


def apply_deltas(s: Session, run_id: int, deltas: Mapping[str, Mapping[str, int]]) -> None:
    """Add `{category: {column: delta}}` to the run's counters; a category not seen before begins at zero.

    Each addition is one atomic `col = col + delta`: transactions that run at once lose nothing to each other.

    Raises:
        ValueError: a column is not one of `COUNTED`.
    """
    rows = []
    for category in sorted(deltas):  # one order for all: two transactions never wait for each other in a ring
        delta = {column: amount for column, amount in deltas[category].items() if amount}
        if unknown := delta.keys() - set(COUNTED):
            raise ValueError(f"no such counter: {', '.join(sorted(unknown))}")
        if delta:
            rows.append({"run_id": run_id, "category": category, **_NOTHING, **delta})
    if rows:
        s.flush()
        s.connection().execute(_ADD_SQLITE if is_sqlite(s) else _ADD_POSTGRESQL, rows)


def _addition(statement: Any) -> Any:
    sums = {name: _TABLE.c[name] + statement.excluded[name] for name in COUNTED}
    return statement.on_conflict_do_update(index_elements=["run_id", "category"], set_=sums)


_TABLE: Any = RunCategory.__table__  # type: ignore[attr-defined]  # SQLModel adds it; mypy sees the class alone
_NOTHING = dict.fromkeys(COUNTED, 0)
_ADD_SQLITE = _addition(sqlite.insert(_TABLE))  # made once: making one costs more than carrying it out
_ADD_POSTGRESQL = _addition(postgresql.insert(_TABLE))


def counters(s: Session, run_id: int) -> dict[str, dict[str, int]]:
    """`{category: {column: value}}` as kept, categories in order."""
    columns = [getattr(RunCategory, column) for column in COUNTED]
    statement = select(col(RunCategory.category), *columns).where(col(RunCategory.run_id) == run_id)
    rows = s.execute(statement.order_by(col(RunCategory.category)))
    return {row[0]: dict(zip(COUNTED, row[1:], strict=True)) for row in rows}


def recount(s: Session, run_id: int) -> None:
    """Make the counters again from the samples: after a crash, after a bulk change, or to be sure."""
    counted = _count(s, run_id)
    s.execute(delete(RunCategory).where(col(RunCategory.run_id) == run_id))
    apply_deltas(s, run_id, counted)


def _count(s: Session, run_id: int) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    done = col(Sample.state) == "done"
    tokens = [func.coalesce(func.sum(column), 0) for column in (Sample.prompt_tokens, Sample.completion_tokens)]
    in_run = col(Sample.run_id) == run_id
    by_state = select(col(Sample.category), col(Sample.state), func.count(), *tokens).where(in_run)
    for category, state, count, prompt, completion in s.execute(
        by_state.group_by(col(Sample.category), col(Sample.state))
    ):
        row = found.setdefault(category, {})
        row[state] = count
        if state == "done":
            row |= {"prompt_tokens": int(prompt), "completion_tokens": int(completion)}
    looked_at = (col(Sample.text_checked) == col(Sample.attempt)) & (col(Sample.attempt) > 0)
    by_check = select(col(Sample.category), func.count()).where(in_run, done, looked_at)
    for category, count in s.execute(by_check.group_by(col(Sample.category))):
        found[category]["checked"] = count
    flagged = select(col(SampleFlag.sample_id)).where(
        col(SampleFlag.run_id) == run_id, col(SampleFlag.severity).in_(FLAGGED_SEVERITIES)
    )
    by_flag = select(col(Sample.category), func.count()).where(in_run, done, col(Sample.id).in_(flagged))
    for category, count in s.execute(by_flag.group_by(col(Sample.category))):
        found[category]["flagged"] = count
    return found
