"""The checks that need all answers of a run: identical answers to different prompts, and lengths far from their category's.

Made once the run rests and every text was looked at, and again whenever answers came or went (`runs.collection_due`). The
run's old flags of these codes go first, so a sweep that was cut off is simply made again. Its flags are notes (info): they
count for nobody, so no counter moves. In memory: 56 bytes a sample.
"""

import threading
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, insert, literal_column, select, update
from sqlmodel import col

from db.tables import Run, Sample, SampleFlag
from inference.context import Context
from inference.quality.collection import duplicate_flag, length_flag, length_limits
from inference.quality.flags import Flag
from inference.runs.behind.looking import UNCHECKED, hold_run
from inference.runs.control import SETTLED
from inference.runs.resultrows import flag_values
from inference.runs.switches import OF_RUN

RESTING: Final = ("paused", *SETTLED)
_READ: Final = 10_000
_WRITE: Final = 500
_SAMPLES: Any = Sample.__table__  # type: ignore[attr-defined]  # SQLModel adds it; mypy sees the class alone
_FLAGS: Any = SampleFlag.__table__  # type: ignore[attr-defined]

Numbers = NDArray[np.int64]
Note = tuple[int, int, dict[str, Any]]
"""(sample id, the lease it was read under, the flag's columns)"""


def runs_to_sweep(ctx: Context) -> list[int]:
    """The runs at rest whose samples changed since they were compared, all of them looked at."""
    unchecked = select(_SAMPLES.c.id).where(_SAMPLES.c.run_id == col(Run.id), UNCHECKED).exists()
    query = select(col(Run.id)).where(col(Run.collection_due) > 0, col(Run.state).in_(RESTING), ~unchecked)
    with ctx.db.read() as s:
        return list(s.execute(query.order_by(col(Run.id))).scalars())


def sweep(ctx: Context, run_id: int, off: frozenset[str], halt: threading.Event) -> bool:
    """Compare a run's answers and write what was found. Owns its transactions, each of at most some hundred rows.

    Args:
        ctx: the context.
        run_id: the run.
        off: flag codes that are not looked for.
        halt: stops it between two batches.

    Returns:
        True where it came to its end; False where it was stopped, or samples changed meanwhile: it is due still.
    """
    with ctx.db.read() as s:
        due = s.execute(select(col(Run.collection_due)).where(col(Run.id) == run_id)).scalar()
    if due is None:
        return True
    found: Iterator[Note] = iter(())
    if not off >= OF_RUN:
        answers = _gather(ctx, run_id, halt)
        if answers is None:
            return False
        if "duplicate_answer" not in off:
            found = chain(found, _duplicates(answers))
        if "length_outlier" not in off:
            found = chain(found, _outliers(answers))
    return _replace(ctx, run_id, found, halt) and _settled(ctx, run_id, due)


@dataclass(slots=True)
class _Answers:
    """Columns of a run's done samples, by id. `hashes` count where `hashed`; `categories` are places in `names`."""

    ids: Numbers
    leases: Numbers
    prompts: Numbers
    lengths: Numbers
    hashes: Numbers
    hashed: NDArray[np.bool_]
    categories: Numbers
    names: list[str] = field(default_factory=list)


def _gather(ctx: Context, run_id: int, halt: threading.Event) -> _Answers | None:
    c = _SAMPLES.c
    columns = [array("q") for _ in range(7)]
    names: dict[str, int] = {}
    after = 0
    while not halt.is_set():
        query = (
            select(c.id, c.lease, c.prompt_id, c.completion_tokens, c.answer_hash, c.category)
            .where(c.run_id == run_id, c.id > after, c.state == literal_column("'done'"))
            .order_by(c.id)
            .limit(_READ)
        )
        with ctx.db.read() as s:
            rows = s.connection().execute(query).all()
        for number, lease, prompt, length, hashed, category in rows:
            values = (number, lease, prompt, length or 0, hashed or 0, hashed is not None)
            for column, value in zip(columns, (*values, names.setdefault(category, len(names))), strict=True):
                column.append(value)
        if len(rows) < _READ:
            ids, leases, prompts, lengths, hashes, known, categories = (
                np.frombuffer(column, dtype=np.int64) if column else np.empty(0, dtype=np.int64) for column in columns
            )
            return _Answers(ids, leases, prompts, lengths, hashes, known.astype(bool), categories, list(names))
        after = rows[-1].id
    return None


def _duplicates(answers: _Answers) -> Iterator[Note]:
    """Each sample whose answer was given to another prompt too; repeats of one prompt may well be alike."""
    places = np.flatnonzero(answers.hashed)
    places = places[np.argsort(answers.hashes[places], kind="stable")]
    hashes = answers.hashes[places]
    starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1]))) if places.size else places
    ends = np.append(starts[1:], places.size)
    for start, end in zip(starts[ends - starts > 1], ends[ends - starts > 1], strict=True):
        group = places[start:end]
        prompts = answers.prompts[group]
        differs = np.flatnonzero(prompts != prompts[0])
        if not differs.size:
            continue
        first, other = group[0], group[differs[0]]
        others = len(np.unique(prompts)) - 1
        for place in group:
            twin = other if answers.prompts[place] == prompts[0] else first
            raised = duplicate_flag(int(answers.lengths[place]), others, int(answers.ids[twin]))
            yield _note(answers, place, raised)


def _outliers(answers: _Answers) -> Iterator[Note]:
    """Each sample far longer or shorter than its category."""
    for number, name in enumerate(answers.names):
        places = np.flatnonzero(answers.categories == number)
        lengths = answers.lengths[places]
        limits = length_limits(lengths)
        if limits is None:
            continue
        low, high = limits
        for place in places[(lengths < low) | (lengths > high)]:
            raised = length_flag(int(answers.lengths[place]), limits, name or None)
            if raised is not None:
                yield _note(answers, place, raised)


def _note(answers: _Answers, place: int, raised: Flag) -> Note:
    """A note, whatever its kind's severity: half a run alike is one fact, and must not leave half a run flagged."""
    values = flag_values(raised._replace(severity="info"))
    return int(answers.ids[place]), int(answers.leases[place]), values


def _replace(ctx: Context, run_id: int, found: Iterator[Note], halt: threading.Event) -> bool:
    """The old flags out, the new ones in; a sample that changed since it was read gets none."""
    c = _FLAGS.c
    old = select(c.id).where(c.run_id == run_id, c.code.in_(sorted(OF_RUN))).limit(_WRITE)
    while True:
        if halt.is_set():
            return False
        with ctx.db.write() as s:
            ids = s.connection().execute(old).scalars().all()
            if ids:
                s.connection().execute(delete(_FLAGS).where(c.id.in_(ids)))
        if len(ids) < _WRITE:
            break
    while batch := list(islice(found, _WRITE)):
        if halt.is_set() or not _add(ctx, run_id, batch):
            return False
    return True


def _add(ctx: Context, run_id: int, batch: list[Note]) -> bool:
    """False where the run is gone."""
    samples = _SAMPLES.c
    query = select(samples.id, samples.lease).where(
        samples.id.in_([number for number, _, _ in batch]), samples.state == literal_column("'done'")
    )
    with ctx.db.write() as s:
        if not hold_run(s, run_id):
            return False
        current = {
            row.id: row.lease for row in s.connection().execute(query.order_by(samples.id).with_for_update()).all()
        }
        flags = [
            {"run_id": run_id, "sample_id": number, **flag}
            for number, lease, flag in batch
            if current.get(number) == lease
        ]
        if flags:
            s.connection().execute(insert(_FLAGS), flags)
    return True


def _settled(ctx: Context, run_id: int, due: int) -> bool:
    """Not due any more, unless samples changed while it went on."""
    with ctx.db.write() as s:
        done: Any = s.execute(
            update(Run).where(col(Run.id) == run_id, col(Run.collection_due) == due).values(collection_due=0)
        )
        return bool(done.rowcount)
