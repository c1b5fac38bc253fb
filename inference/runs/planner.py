"""Planning: one sample row for each prompt and repeat. Work left is what is missing; there is no queue beside the rows.

Rows are made in batches, each a transaction, prompts in the upload's order; a crash between two batches leaves whole prompts
planned, so planning goes on after the last one and never makes a row twice.
"""

from typing import Any, Final

from sqlalchemy import func, insert
from sqlmodel import Session, col, select

from db.queries.counters import apply_deltas
from db.tables import Prompt, Run, RunEvent, Sample
from db.types import now
from inference.context import Context
from inference.runs.settings import RunSettings

BATCH: Final = 4000
"""Rows a transaction: some tens of milliseconds, so that pages and reviewers are not kept waiting."""

_TABLE: Any = Sample.__table__  # type: ignore[attr-defined]  # SQLModel adds it; mypy sees the class alone


def plan_batch(ctx: Context, run_id: int, settings: RunSettings) -> bool:
    """Make the next rows.

    Returns:
        True while there are more to make; False once the run is marked as planned.
    """
    with ctx.db.write() as s:
        run = s.get(Run, run_id)
        if run is None or run.planned:
            return False
        last, planned = s.exec(
            select(func.max(col(Sample.prompt_id)), func.count()).where(col(Sample.run_id) == run_id)
        ).one()
        room = max(1, BATCH // settings.repeats)
        if settings.limit is not None:
            room = min(room, settings.limit - planned // settings.repeats)
        prompts = _next_prompts(s, settings, last or 0, room) if room > 0 else []
        if prompts:
            _insert(s, run_id, settings, prompts)
            return True
        run.planned = True
        s.add(run)
        s.add(RunEvent(run_id=run_id, kind="planned", message=f"{planned:,} samples planned."))
        return False


def _next_prompts(s: Session, settings: RunSettings, after: int, limit: int) -> list[Prompt]:
    query = select(Prompt).where(col(Prompt.prompt_set_id) == settings.prompt_set_id, col(Prompt.id) > after)
    if settings.categories is not None:
        query = query.where(col(Prompt.category).in_(settings.categories))
    return list(s.exec(query.order_by(col(Prompt.id)).limit(limit)).all())


def _insert(s: Session, run_id: int, settings: RunSettings, prompts: list[Prompt]) -> None:
    deltas: dict[str, dict[str, int]] = {}
    rows: list[dict[str, Any]] = []
    at = now()
    for prompt in prompts:
        counts = deltas.setdefault(prompt.category, {"pending": 0})
        counts["pending"] += settings.repeats
        rows += [
            {
                "run_id": run_id,
                "prompt_id": prompt.id,
                "turn": 0,
                "repeat": repeat,
                "source_id": prompt.source_id,
                "category": prompt.category,
                "prompt_preview": prompt.preview,
                "state": "pending",
                "lease": 0,
                "attempt": 0,
                "attempts": 0,
                "generation": 0,
                "kinds": 0,
                "flag_count": 0,
                "text_checked": 0,
                "preview": "",
                "updated_at": at,
            }
            for repeat in range(settings.repeats)
        ]
    s.connection().execute(insert(_TABLE), rows)
    apply_deltas(s, run_id, deltas)
