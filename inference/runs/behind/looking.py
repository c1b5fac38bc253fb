"""Done samples looked at again from their ids: what the checks behind a run and a rederive share.

A look takes no locks and may take its time; the write is one short transaction, and writes only what is still as it was when
it was read: a sample that was put back, made again or deleted meanwhile has another lease, or is gone.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update
from sqlmodel import Session

from db.idstore import AttemptIds, Key
from db.queries.counters import FLAGGED_SEVERITIES, apply_deltas
from db.tables import Attempt, Run, Sample, SampleFlag
from db.types import now
from inference.context import Context
from inference.prompts.service import PromptData, prompt_bodies

log = structlog.get_logger(__name__)

_SAMPLES: Any = Sample.__table__  # type: ignore[attr-defined]  # SQLModel adds it; mypy sees the class alone
_ATTEMPTS: Any = Attempt.__table__  # type: ignore[attr-defined]
_FLAGS: Any = SampleFlag.__table__  # type: ignore[attr-defined]
_RUNS: Any = Run.__table__  # type: ignore[attr-defined]
_DONE: Final = _SAMPLES.c.state == literal_column("'done'")
UNCHECKED: Final = _DONE & (_SAMPLES.c.text_checked != _SAMPLES.c.attempt)
"""In the partial index's own words, as literals: SQLite takes an index like that for nothing else"""


@dataclass(slots=True)
class Looked:
    """What a look at one attempt came to. `figures` (and `segments`) are given where these were made again too."""

    id: int
    attempt: int
    lease: int
    category: str
    answer_hash: int | None = None
    flags: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Any] | None = None
    segments: list[list[Any]] | None = None


@dataclass(slots=True)
class Found:
    """A done sample as it was read: its row, its prompt's body, its ids, or why they cannot be had."""

    row: Any
    body: PromptData | None
    ids: AttemptIds | None
    trouble: str = ""

    def looked(self) -> Looked:
        """An empty look at it."""
        return Looked(self.row.id, self.row.attempt, self.row.lease, self.row.category)


def find_done(ctx: Context, run_id: int, limit: int, *, after: int | None = None) -> list[Found]:
    """The next done samples with their current attempt's ids.

    Args:
        ctx: the context.
        run_id: their run.
        limit: at most so many.
        after: those with a larger id, looked at or not; None: those whose text is yet to be looked at.
    """
    sample, attempt = _SAMPLES.c, _ATTEMPTS.c
    query = (
        select(
            *(sample.id, sample.attempt, sample.lease, sample.prompt_id, sample.category),
            *(attempt.finish_reason, attempt.finish_matched),
        )
        .join(_ATTEMPTS, (attempt.sample_id == sample.id) & (attempt.number == sample.attempt))
        .where(sample.run_id == run_id)
    )
    query = query.where(UNCHECKED) if after is None else query.where(_DONE, sample.id > after)
    with ctx.db.read() as s:
        rows = list(s.connection().execute(query.order_by(sample.id).limit(limit)).all())
        bodies = prompt_bodies(s, {row.prompt_id for row in rows}) if rows else {}
    ids = dict(_ids(ctx, run_id, [(row.id, row.attempt) for row in rows]))
    nothing: tuple[AttemptIds | None, str] = (None, "The id store has no ids of it.")
    return [Found(row, bodies.get(row.prompt_id), *ids.get((row.id, row.attempt), nothing)) for row in rows]


def _ids(ctx: Context, run_id: int, keys: Sequence[Key]) -> Iterator[tuple[Key, tuple[AttemptIds | None, str]]]:
    """Ids by key; a damaged blob costs its own sample alone."""
    from db.codec import IdsCorrupted

    try:
        for key, stored in ctx.ids.get_many(run_id, keys):
            yield key, (stored, "")
    except IdsCorrupted:
        for key in keys:
            try:
                yield key, (ctx.ids.get(run_id, key), "")
            except IdsCorrupted as error:
                log.warning("ids_corrupted", run_id=run_id, sample_id=key[0], error=error.message)
                yield key, (None, error.message)


def hold_run(s: Session, run_id: int) -> bool:
    """Keep a run from being deleted until the transaction ends; False where it is gone.

    Called before any other row is locked, as whoever regenerates or deletes takes the run first: those that take the same rows in
    one order never wait in a ring.
    """
    here = select(_RUNS.c.id).where(_RUNS.c.id == run_id).with_for_update(read=True, key_share=True)
    return s.connection().execute(here).first() is not None


def write_looked(s: Session, run_id: int, looked: Sequence[Looked], replaces: Collection[str] | None = None) -> int:
    """Write those that are still what they were when they were read, and keep the counters.

    Args:
        s: a write session.
        run_id: their run.
        looked: looks at attempts, some hundreds at most.
        replaces: the flag codes whose flags are replaced; None: all of them.

    Returns:
        How many were written.
    """
    if not looked:
        return 0
    if not hold_run(s, run_id):
        return 0
    connection = s.connection()
    c = _SAMPLES.c
    query = select(c.id, c.lease, c.attempt, c.flag_count, c.text_checked).where(
        c.id.in_([item.id for item in looked]), _DONE
    )
    current = {row.id: row for row in connection.execute(query.order_by(c.id).with_for_update()).all()}
    fresh = [
        item
        for item in looked
        if (row := current.get(item.id)) and (row.lease, row.attempt) == (item.lease, item.attempt)
    ]
    if not fresh:
        return 0
    _write(s, run_id, fresh, current, replaces)
    return len(fresh)


def _write(
    s: Session, run_id: int, fresh: Sequence[Looked], current: dict[int, Any], replaces: Collection[str] | None
) -> None:
    connection = s.connection()
    ids = [item.id for item in fresh]
    replaced = _FLAGS.c.sample_id.in_(ids)
    kept: dict[int, int] = {}
    if replaces is not None:
        kept = _counted(s, ids, replaces)
        replaced &= _FLAGS.c.code.in_(sorted(replaces))
    connection.execute(delete(_FLAGS).where(replaced))
    rows = [{"run_id": run_id, "sample_id": item.id, **flag} for item in fresh for flag in item.flags]
    if rows:
        connection.execute(insert(_FLAGS), rows)
    deltas: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    samples, changed, attempts = [], [], []
    at = now()
    for item in fresh:
        was = current[item.id]
        count = kept.get(item.id, 0) + sum(flag["severity"] in FLAGGED_SEVERITIES for flag in item.flags)
        deltas[item.category]["flagged"] += (count > 0) - (was.flag_count > 0)
        deltas[item.category]["checked"] += was.text_checked != item.attempt
        values = {"key_id": item.id, "new_text_checked": item.attempt, "new_answer_hash": item.answer_hash}
        if item.figures is None and not item.flags and count == was.flag_count:
            samples.append(values)
            continue
        figures = {f"new_{name}": value for name, value in (item.figures or {}).items()} | {"new_flag_count": count}
        changed.append(values | figures | {"new_updated_at": at})
        if item.segments is not None:
            figures["new_segments"] = item.segments
        attempts.append({"key_id": item.id, "key_number": item.attempt, **figures})
    _update(s, _SAMPLES, samples)
    _update(s, _SAMPLES, changed)
    _update(s, _ATTEMPTS, attempts)
    apply_deltas(s, run_id, deltas)


def _counted(s: Session, ids: Sequence[int], without: Collection[str]) -> dict[int, int]:
    """{sample: its flags that count, but for those of these codes}."""
    c = _FLAGS.c
    query = select(c.sample_id, func.count()).where(
        c.sample_id.in_(ids), c.severity.in_(FLAGGED_SEVERITIES), c.code.not_in(sorted(without))
    )
    return {row[0]: row[1] for row in s.connection().execute(query.group_by(c.sample_id)).all()}


def _update(s: Session, table: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Rows of one shape; `key_…` find the row, `new_…` are its new values."""
    if not rows:
        return
    names = [name.removeprefix("new_") for name in rows[0] if name.startswith("new_")]
    statement = update(table).values({name: bindparam(f"new_{name}") for name in names})
    if table is _SAMPLES:
        statement = statement.where(table.c.id == bindparam("key_id"))
    else:
        statement = statement.where(table.c.sample_id == bindparam("key_id"), table.c.number == bindparam("key_number"))
    s.connection().execute(statement, rows)
