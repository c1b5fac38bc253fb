"""Putting samples back to work, and taking them out of it: the only places outside the writer that change a sample's state.

Each change grows the sample's lease, so a result that is still on its way for the old one is refused when it arrives; and
each moves the counters in the same transaction.
"""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import case, delete, func, update
from sqlalchemy import select as sa_select
from sqlmodel import Session, col, select

from db.queries.counters import apply_deltas
from db.tables import Sample, SampleFlag
from db.types import now

Deltas = dict[str, dict[str, int]]
"""{category: {counter: change}}"""


def reset_samples(s: Session, run_id: int, ids: Sequence[int], *, generation: int | None) -> int:
    """Put samples back to pending, whatever became of them; their attempts stay, none of them is current any more.

    Args:
        s: a write session.
        run_id: their run; ids of other runs are left alone.
        ids: sample ids, a batch of at most some thousands.
        generation: names the changed settings that the next attempts use; None keeps each sample's own.

    Returns:
        How many samples there were.
    """
    deltas: Deltas = defaultdict(lambda: defaultdict(int))
    _hold(s, ids)
    done = col(Sample.state) == "done"
    figures = sa_select(
        col(Sample.category),
        col(Sample.state),
        func.count(),
        func.sum(case((done & (col(Sample.flag_count) > 0), 1), else_=0)),
        func.sum(case((done & (col(Sample.text_checked) == col(Sample.attempt)), 1), else_=0)),
        func.sum(case((done, func.coalesce(col(Sample.prompt_tokens), 0)), else_=0)),
        func.sum(case((done, func.coalesce(col(Sample.completion_tokens), 0)), else_=0)),
    ).where(col(Sample.run_id) == run_id, col(Sample.id).in_(ids))
    total = 0
    for category, state, count, flagged, checked, prompt_tokens, completion_tokens in s.execute(
        figures.group_by(col(Sample.category), col(Sample.state))
    ).all():
        total += count
        deltas[category][state] -= count
        deltas[category]["pending"] += count
        deltas[category]["flagged"] -= int(flagged)
        deltas[category]["checked"] -= int(checked)
        deltas[category]["prompt_tokens"] -= int(prompt_tokens)
        deltas[category]["completion_tokens"] -= int(completion_tokens)
    s.execute(delete(SampleFlag).where(col(SampleFlag.run_id) == run_id, col(SampleFlag.sample_id).in_(ids)))
    values = {
        "state": "pending",
        "lease": col(Sample.lease) + 1,
        "attempt": 0,
        "finish_reason": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "reasoning_tokens": None,
        "kinds": 0,
        "flag_count": 0,
        "answer_hash": None,
        "preview": "",
        "error_code": None,
        "error": None,
        "backend_id": None,
        "updated_at": now(),
    }
    if generation is not None:
        values["generation"] = generation
    s.execute(update(Sample).where(col(Sample.run_id) == run_id, col(Sample.id).in_(ids)).values(**values))
    apply_deltas(s, run_id, deltas)
    return total


def _hold(s: Session, ids: Sequence[int | None]) -> None:
    """Lock the samples until the transaction ends, lowest id first, so that no result lands between counting and changing.

    PostgreSQL alone: a write session on SQLite holds the whole database already, and the clause is left out there.
    """
    s.execute(select(col(Sample.id)).where(col(Sample.id).in_(ids)).order_by(col(Sample.id)).with_for_update())


def move_all(s: Session, run_id: int, state: str, to: str, *, limit: int | None = None) -> int:
    """Move samples of one state to another (`in_flight` back to `pending` after a crash, `pending` to `skipped`).

    Args:
        s: a write session.
        run_id: their run.
        state: the state they are in.
        to: the state they get.
        limit: at most so many, lowest ids first, so that a large run takes several short transactions.

    Returns:
        How many were moved; fewer than `limit` means that none is left.
    """
    picked = select(col(Sample.id)).where(col(Sample.run_id) == run_id, col(Sample.state) == state)
    if limit is not None:
        picked = picked.order_by(col(Sample.id)).limit(limit)
    ids = s.exec(picked).all()
    for start in range(0, len(ids), 5000):
        batch = ids[start : start + 5000]
        chosen = col(Sample.id).in_(batch) & (col(Sample.state) == state)
        _hold(s, batch)
        counts = s.exec(select(col(Sample.category), func.count()).where(chosen).group_by(col(Sample.category))).all()
        s.execute(update(Sample).where(chosen).values(state=to, lease=col(Sample.lease) + 1, updated_at=now()))
        apply_deltas(s, run_id, {category: {state: -count, to: count} for category, count in counts})
    return len(ids)
