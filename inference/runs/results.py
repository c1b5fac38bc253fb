"""Writing results: one writer per run, in batches, durable ids first, then one transaction that a stale result cannot pass.

A result carries the lease it was made under. `samples.lease` grows whenever a sample is taken up or put back, so a result of
an aborted or superseded attempt meets `WHERE state='in_flight' AND lease=?` and is dropped and counted, by a guard and not
by luck. The lease is also read before the ids are stored: ids lie under (sample, attempt number), and a late result must not
overwrite those of the attempt that took its number.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import bindparam, delete, insert, update
from sqlmodel import Session, col, select

from db.idstore import AttemptIds
from db.queries.counters import apply_deltas
from db.tables import Attempt, Sample, SampleFlag
from db.types import now
from inference.context import Context
from inference.quality import guard as guards
from inference.runs.outcomes import Ending, Outcome
from inference.runs.resultrows import Lens, ResultRow, attempt_values, for_guard, look_at, sample_values

_EMPTY = np.empty(0, dtype=np.uint32)


@dataclass(slots=True)
class Written:
    """What a batch came to. `refused` counts results that came too late; `outcomes` are for the guard."""

    done: int = 0
    failed: int = 0
    refused: int = 0
    completion_tokens: int = 0
    outcomes: list[guards.Outcome] = field(default_factory=list)


def write_results(ctx: Context, run_id: int, lens: Lens, batch: Sequence[Outcome]) -> Written:
    """Inspect, store the ids durably, then write rows, flags and counters in one transaction.

    Args:
        ctx: the context; the caller's thread may block on the disk.
        run_id: the run of all of them.
        lens: how to read the ids.
        batch: at most some hundreds, in the order they ended.

    Raises:
        OSError, sqlalchemy.exc.SQLAlchemyError, sqlite3.Error: disk full, database locked or gone; nothing of the batch's
            rows is written then, and the whole batch may be written again.
    """
    with ctx.db.read() as s:
        current = _leases(s, batch)
    fresh = [outcome for outcome in batch if current.get(outcome.work.sample_id) == outcome.work.lease]
    rows = [look_at(lens, outcome) for outcome in fresh]
    stored = [
        ((row.outcome.work.sample_id, row.outcome.number), AttemptIds(row.outcome.work.prompt_ids, output))
        for row in rows
        if row.outcome.ending is not Ending.RELEASED and (output := _stored_output(row.outcome)) is not None
    ]
    if stored:
        ctx.ids.put(run_id, stored)
    written = Written(refused=len(batch) - len(fresh))
    with ctx.db.write() as s:
        current = _leases(s, fresh, lock=True)
        accepted = [row for row in rows if current.get(row.outcome.work.sample_id) == row.outcome.work.lease]
        written.refused += len(rows) - len(accepted)
        _write_rows(s, run_id, accepted, written)
    return written


def _leases(s: Session, batch: Sequence[Outcome], *, lock: bool = False) -> dict[int, int]:
    """{sample id: lease} of those still in flight."""
    ids = list({outcome.work.sample_id for outcome in batch})
    query = select(col(Sample.id), col(Sample.lease)).where(col(Sample.id).in_(ids), col(Sample.state) == "in_flight")
    if lock:
        query = query.order_by(col(Sample.id)).with_for_update()
    return {number: lease for number, lease in s.exec(query).all() if number is not None}


def _stored_output(outcome: Outcome) -> Any:
    """The output ids to keep: those received, none for an attempt that was never sent."""
    if outcome.output_ids is not None:
        return outcome.output_ids
    return _EMPTY if len(outcome.work.prompt_ids) else None


def _write_rows(s: Session, run_id: int, rows: Sequence[ResultRow], written: Written) -> None:
    deltas: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    at = now()
    attempts: list[dict[str, Any]] = []
    finals: list[dict[str, Any]] = []
    tries: list[dict[str, Any]] = []
    released: list[dict[str, Any]] = []
    flags: list[dict[str, Any]] = []
    for row in rows:
        outcome, work = row.outcome, row.outcome.work
        key = {"key_id": work.sample_id, "key_lease": work.lease}
        if outcome.ending is Ending.RELEASED:
            released.append({**key, "lease": work.lease + 1})
            _count(deltas[work.category], "pending")
            continue
        attempts.append(attempt_values(run_id, row))
        if outcome.ending is Ending.TRIED:
            tries.append({**key, "attempts": outcome.number})
            continue
        finals.append({**key, **sample_values(row), "updated_at": at})
        flags += [{"run_id": run_id, "sample_id": work.sample_id, **flag} for flag in row.flags]
        counts = deltas[work.category]
        _count(counts, outcome.ending.value)
        if outcome.ending is Ending.DONE:
            tokens = outcome.completion_tokens or 0
            counts["flagged"] += row.counted > 0
            counts["prompt_tokens"] += outcome.prompt_tokens or 0
            counts["completion_tokens"] += tokens
            written.done += 1
            written.completion_tokens += tokens
        else:
            written.failed += 1
        written.outcomes.append(for_guard(row))
    _execute(s, attempts, finals, tries, released, flags)
    apply_deltas(s, run_id, deltas)


def _count(counts: dict[str, int], to: str) -> None:
    counts["in_flight"] -= 1
    counts[to] += 1


_TABLE: Any = Sample.__table__  # type: ignore[attr-defined]  # SQLModel adds it; mypy sees the class alone
_ATTEMPTS: Any = Attempt.__table__  # type: ignore[attr-defined]
_FLAGS: Any = SampleFlag.__table__  # type: ignore[attr-defined]
_GUARDED: Any = (
    update(_TABLE)
    .where(_TABLE.c.id == bindparam("key_id"))
    .where(_TABLE.c.state == "in_flight")
    .where(_TABLE.c.lease == bindparam("key_lease"))
)


def _execute(
    s: Session,
    attempts: list[dict[str, Any]],
    finals: list[dict[str, Any]],
    tries: list[dict[str, Any]],
    released: list[dict[str, Any]],
    flags: list[dict[str, Any]],
) -> None:
    connection = s.connection()
    if attempts:
        connection.execute(insert(_ATTEMPTS), attempts)
    if tries:
        connection.execute(_GUARDED.values(attempts=bindparam("attempts")), tries)
    if released:
        connection.execute(_GUARDED.values(state="pending", lease=bindparam("lease")), released)
    if finals:
        columns: dict[str, Any] = {name: bindparam(name) for name in finals[0] if name not in {"key_id", "key_lease"}}
        connection.execute(_GUARDED.values(**columns), finals)
        ids = [values["key_id"] for values in finals]
        connection.execute(delete(_FLAGS).where(_FLAGS.c.sample_id.in_(ids)))
    if flags:
        connection.execute(insert(_FLAGS), flags)
