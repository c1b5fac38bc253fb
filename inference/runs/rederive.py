"""Making segments and flags again from the ids: after a format or a check got better, nothing has to be generated anew."""

from collections import defaultdict
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update
from sqlmodel import Session

from db.errors import Unavailable
from db.queries.counters import apply_deltas
from db.tables import Attempt, Run, RunEvent, Sample, SampleFlag
from db.types import now
from inference.context import Context
from inference.prompts.service import prompt_bodies
from inference.quality.inspection import inspect
from inference.runs.control import SETTLED, check_action
from inference.runs.rendering import prompt_flags, render_body
from inference.runs.resultrows import Lens, clean_text, flag_values, matched_value, segments_json
from inference.runs.runstate import RunBroken, open_lens
from inference.tokens.errors import TokensError

BATCH = 200

_SAMPLES: Any = Sample.__table__  # type: ignore[attr-defined]  # SQLModel adds it; mypy sees the class alone
_ATTEMPTS: Any = Attempt.__table__  # type: ignore[attr-defined]
_FLAGS: Any = SampleFlag.__table__  # type: ignore[attr-defined]
_FIGURES = ("reasoning_tokens", "kinds", "flag_count", "preview")


def rederive(ctx: Context, run_id: int) -> int:
    """Segment and check every done sample's current attempt again, a batch a transaction; the ids are not touched.

    Returns:
        How many attempts were looked at. Owns its transactions; may take a minute for each 100,000 samples.

    Raises:
        NotFound: no such run.
        Conflict: `illegal_move`, the run is neither paused nor ended.
        Unavailable: `tokenizer_gone`.
    """
    with ctx.db.read() as s:
        run = check_action(s, run_id, "rederive", ("paused", *SETTLED))
        try:
            lens = open_lens(ctx, run)
        except RunBroken as error:
            raise Unavailable("tokenizer_gone", str(error)) from error
    after = total = 0
    while True:
        with ctx.db.read() as s:
            rows = _next(s, run_id, after)
            bodies = prompt_bodies(s, {row.prompt_id for row in rows})
        if not rows:
            break
        after = rows[-1].id
        looked = []
        ids = dict(ctx.ids.get_many(run_id, [(row.id, row.attempt) for row in rows]))
        for row in rows:
            stored = ids.get((row.id, row.attempt))
            if stored is not None:
                looked.append(_again(lens, row, stored, bodies.get(row.prompt_id)))
        with ctx.db.write() as s:
            total += _write(s, run_id, looked)
    with ctx.db.write() as s:
        if s.get(Run, run_id) is not None:
            s.add(
                RunEvent(
                    run_id=run_id, kind="rederived", message=f"Segments and flags of {total:,} samples made again."
                )
            )
    return total


def _next(s: Session, run_id: int, after: int) -> list[Any]:
    sample, attempt = _SAMPLES.c, _ATTEMPTS.c
    query = (
        select(
            sample.id,
            sample.attempt,
            sample.lease,
            sample.prompt_id,
            sample.category,
            attempt.finish_reason,
            attempt.finish_matched,
        )
        .join(_ATTEMPTS, (attempt.sample_id == sample.id) & (attempt.number == sample.attempt))
        .where(sample.run_id == run_id, sample.state == "done", sample.id > after)
    )
    return list(s.connection().execute(query.order_by(sample.id).limit(BATCH)).all())


def _again(lens: Lens, row: Any, stored: Any, body: Any) -> dict[str, Any]:
    tools = None if body is None else body.tools
    seen = inspect(
        lens.bound,
        lens.tokenizer,
        stored.prompt_ids,
        stored.output_ids,
        row.finish_reason or "",
        matched_value(row.finish_matched),
        tools=tools,
        stop_ids=lens.stop_ids,
    )
    flags = [flag_values(flag) for flag in (*_of_prompt(lens, body), *seen.flags)]
    return {
        "id": row.id,
        "attempt": row.attempt,
        "lease": row.lease,
        "category": row.category,
        "reasoning_tokens": seen.reasoning_tokens,
        "kinds": seen.kinds,
        "flag_count": sum(flag["severity"] in {"warning", "error"} for flag in flags),
        "preview": clean_text(seen.preview),
        "segments": segments_json(seen),
        "flags": flags,
    }


def _of_prompt(lens: Lens, body: Any) -> tuple[Any, ...]:
    if body is None:
        return ()
    try:
        return prompt_flags(render_body(lens.tokenizer, lens.settings, body))
    except TokensError:
        return ()


def _write(s: Session, run_id: int, looked: list[dict[str, Any]]) -> int:
    """Write those that are still what they were when they were read."""
    connection = s.connection()
    c = _SAMPLES.c
    query = select(c.id, c.lease, c.flag_count).where(c.id.in_([item["id"] for item in looked]), c.state == "done")
    current = {row.id: row for row in connection.execute(query.order_by(c.id).with_for_update()).all()}
    fresh = [item for item in looked if item["id"] in current and current[item["id"]].lease == item["lease"]]
    if not fresh:
        return 0
    deltas: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for item in fresh:
        deltas[item["category"]]["flagged"] += (item["flag_count"] > 0) - (current[item["id"]].flag_count > 0)
    figures: dict[str, Any] = {name: bindparam(f"new_{name}") for name in _FIGURES}
    values = [
        {
            "key_id": item["id"],
            "key_number": item["attempt"],
            "new_segments": item["segments"],
            **{f"new_{name}": item[name] for name in _FIGURES},
        }
        for item in fresh
    ]
    connection.execute(
        update(_ATTEMPTS)
        .where(_ATTEMPTS.c.sample_id == bindparam("key_id"), _ATTEMPTS.c.number == bindparam("key_number"))
        .values(segments=bindparam("new_segments"), **figures),
        values,
    )
    connection.execute(
        update(_SAMPLES).where(_SAMPLES.c.id == bindparam("key_id")).values(updated_at=now(), **figures), values
    )
    connection.execute(delete(_FLAGS).where(_FLAGS.c.sample_id.in_([item["id"] for item in fresh])))
    rows = [{"run_id": run_id, "sample_id": item["id"], **flag} for item in fresh for flag in item["flags"]]
    if rows:
        connection.execute(insert(_FLAGS), rows)
    apply_deltas(s, run_id, deltas)
    return len(fresh)
