"""Taking samples up: pending → in flight, each with a lease of its own, in the order of their ids, a bounded batch at a time."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select as sa_select
from sqlalchemy import update
from sqlmodel import Session, col, select

from db.queries.counters import apply_deltas
from db.tables import Run, Sample
from inference.context import Context
from inference.prompts.service import prompt_bodies
from inference.runs.outcomes import Work
from inference.runs.rendering import Prompted, prepare_all
from inference.runs.resultrows import Lens

_TABLE: Any = Sample.__table__  # type: ignore[attr-defined]  # SQLModel adds it; mypy sees the class alone


@dataclass(slots=True)
class Leased:
    """A batch taken up: what can be sent, and what never will be (with the reason in `Prompted`)."""

    ready: list[Work]
    refused: list[tuple[Work, Prompted]]

    def __len__(self) -> int:
        return len(self.ready) + len(self.refused)


def lease(
    ctx: Context,
    run_id: int,
    lens: Lens,
    limit: int,
    *,
    only: Collection[int] | None = None,
    without: Collection[int] = (),
) -> Leased:
    """Lease and render the next pending samples.

    Args:
        ctx: the context; the caller's thread blocks while prompts are rendered (milliseconds each).
        run_id: the run, which must be running.
        lens: its settings, tokenizer and format.
        limit: how many at most.
        only: take only samples of these generations (those whose backends are there); None = of any.
        without: leave out samples of these generations.
    """
    with ctx.db.write() as s:
        if s.exec(select(Run.state).where(col(Run.id) == run_id)).first() != "running":
            return Leased([], [])
        taken = _take(s, run_id, limit, only, without)
    if not taken:
        return Leased([], [])
    prompt_ids = list(dict.fromkeys(row["prompt_id"] for row in taken))
    with ctx.db.read() as s:
        bodies = prompt_bodies(s, prompt_ids)
    prompted = prepare_all(lens.tokenizer, lens.settings, bodies, prompt_ids)
    return _sorted(taken, prompted)


def _take(
    s: Session, run_id: int, limit: int, only: Collection[int] | None, without: Collection[int]
) -> Sequence[dict[str, Any]]:
    c = _TABLE.c
    query = sa_select(c.id, c.lease, c.prompt_id, c.turn, c.repeat, c.category, c.attempts, c.generation).where(
        c.run_id == run_id, c.state == "pending"
    )
    if only is not None:
        query = query.where(c.generation.in_(only))
    if without:
        query = query.where(c.generation.not_in(without))
    rows = s.connection().execute(query.order_by(c.id).limit(limit).with_for_update()).mappings().all()
    if not rows:
        return []
    ids = [row["id"] for row in rows]
    s.connection().execute(
        update(_TABLE)
        .where(_TABLE.c.id.in_(ids))
        .where(_TABLE.c.state == "pending")
        .values(state="in_flight", lease=_TABLE.c.lease + 1)
    )
    deltas: dict[str, dict[str, int]] = defaultdict(lambda: {"pending": 0, "in_flight": 0})
    for row in rows:
        deltas[row["category"]]["pending"] -= 1
        deltas[row["category"]]["in_flight"] += 1
    apply_deltas(s, run_id, deltas)
    return [dict(row) for row in rows]


def _sorted(taken: Sequence[dict[str, Any]], prompted: dict[int, Prompted]) -> Leased:
    leased = Leased([], [])
    for row in taken:
        prompt = prompted[row["prompt_id"]]
        work = Work(
            sample_id=row["id"],
            lease=row["lease"] + 1,
            prompt_id=row["prompt_id"],
            turn=row["turn"],
            repeat=row["repeat"],
            category=row["category"],
            number=row["attempts"] + 1,
            generation=row["generation"],
            prompt_ids=prompt.ids,
            tools=prompt.tools,
            prompt_flags=prompt.flags,
        )
        if prompt.error_code is None:
            leased.ready.append(work)
        else:
            leased.refused.append((work, prompt))
    return leased
