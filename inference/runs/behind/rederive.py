"""Making segments and flags again from the ids: after a format or a check got better, nothing has to be generated anew.

A job is a row (`rederivations`), done by the worker in slices. Each slice writes a batch of samples, and in the same
transaction how far the job is: a killed worker goes on exactly there. What was found before and after is counted by flag
code, in samples, and told as an event.
"""

import threading
from typing import Any, Final

import structlog
from sqlalchemy import func, select, update
from sqlmodel import Session, col

from db.tables import Rederivation, Run, RunCategory, RunEvent, SampleFlag
from db.types import now
from inference.context import Context
from inference.prompts.service import PromptData
from inference.quality.inspection import inspect
from inference.runs.behind.collection import RESTING, sweep
from inference.runs.behind.looking import Found, Looked, find_done, hold_run, write_looked
from inference.runs.behind.rederivations import ACTIVE
from inference.runs.behind.textpass import REPLACED, read_text, unread
from inference.runs.rendering import prompt_flags, render_body
from inference.runs.resultrows import Lens, clean_text, flag_values, matched_value, segments_json
from inference.runs.runstate import RunBroken, open_lens
from inference.tokens.errors import TokensError

log = structlog.get_logger(__name__)

BATCH: Final = 100


def active_job(ctx: Context) -> int | None:
    """The oldest job that is not done."""
    with ctx.db.read() as s:
        query = select(col(Rederivation.id)).where(col(Rederivation.state).in_(ACTIVE)).order_by(col(Rederivation.id))
        return s.execute(query.limit(1)).scalar()


def rederive_slice(ctx: Context, job_id: int, halt: threading.Event) -> None:
    """Do the next piece of a job: begin it, go over a batch of samples, or end it. Owns its transactions."""
    with ctx.db.read() as s:
        job = s.get(Rederivation, job_id)
        run = None if job is None else s.get(Run, job.run_id)
    if job is None or run is None or job.state not in ACTIVE:
        return
    if job.state == "queued":
        _begin(ctx, job, run)
        return
    try:
        lens = open_lens(ctx, run)
    except RunBroken as error:
        _fail(ctx, job_id, job.run_id, str(error))
        return
    found = find_done(ctx, job.run_id, BATCH, after=job.position)
    if found:
        looked = [_again(lens, one) for one in found]
        with ctx.db.write() as s:
            write_looked(s, job.run_id, [item for item in looked if item.figures is not None])
            write_looked(s, job.run_id, [item for item in looked if item.figures is None], REPLACED)
            s.execute(
                update(Rederivation)
                .where(col(Rederivation.id) == job_id, col(Rederivation.position) == job.position)
                .values(position=found[-1].row.id, done=col(Rederivation.done) + len(found))
            )
    elif run.state not in RESTING or sweep(ctx, job.run_id, lens.off, halt):
        _end(ctx, job_id, job.run_id)


def flagged_samples(s: Session, run_id: int) -> dict[str, int]:
    """{flag code: samples that have it}."""
    c = SampleFlag
    query = select(col(c.code), func.count(func.distinct(c.sample_id))).where(col(c.run_id) == run_id)
    return {code: int(count) for code, count in s.execute(query.group_by(col(c.code)).order_by(col(c.code))).all()}


def _begin(ctx: Context, job: Rederivation, run: Run) -> None:
    """Count what there is."""
    try:
        open_lens(ctx, run)
    except RunBroken as error:
        _fail(ctx, job.id or 0, job.run_id, str(error))
        return
    with ctx.db.read() as s:
        before = flagged_samples(s, job.run_id)
        total = s.execute(
            select(func.coalesce(func.sum(RunCategory.done), 0)).where(col(RunCategory.run_id) == job.run_id)
        ).scalar_one()
    with ctx.db.write() as s:
        hold_run(s, job.run_id)
        changed: Any = s.execute(
            update(Rederivation)
            .where(col(Rederivation.id) == job.id, col(Rederivation.state) == "queued")
            .values(state="running", before=before, total=int(total), started_at=now())
        )
        if changed.rowcount:
            due = col(Run.collection_due) + 1
            s.execute(update(Run).where(col(Run.id) == job.run_id).values(collection_due=due))


def _end(ctx: Context, job_id: int, run_id: int) -> None:
    with ctx.db.read() as s:  # before the write lock is taken: it goes through every flag of the run
        after = flagged_samples(s, run_id)
    with ctx.db.write() as s:
        hold_run(s, run_id)
        job = s.get(Rederivation, job_id, with_for_update=True)
        if job is None or job.state != "running":
            return
        job.after = after
        job.state, job.finished_at = "done", now()
        s.add(job)
        changes = {
            code: [job.before.get(code, 0), job.after.get(code, 0)]
            for code in sorted({*job.before, *job.after})
            if job.before.get(code, 0) != job.after.get(code, 0)
        }
        told = (
            ", ".join(f"{code} {was:,} → {now_:,}" for code, (was, now_) in changes.items()) or "the flags are the same"
        )
        message = f"Segments and flags of {job.done:,} samples made again: {told}."
        s.add(RunEvent(run_id=job.run_id, kind="rederived", message=message, detail={"changes": changes}))


def _fail(ctx: Context, job_id: int, run_id: int, error: str) -> None:
    with ctx.db.write() as s:
        hold_run(s, run_id)
        job = s.get(Rederivation, job_id, with_for_update=True)
        if job is None or job.state not in ACTIVE:
            return
        job.state, job.error, job.finished_at = "failed", error, now()
        s.add(job)
        s.add(RunEvent(run_id=job.run_id, kind="rederive_failed", message=error))


def _again(lens: Lens, found: Found) -> Looked:
    """All that is made from the ids; without figures where they cannot be read: then a flag says why, and the rest stands."""
    row, stored, looked = found.row, found.ids, found.looked()
    if stored is None:
        looked.flags = [unread(found.trouble)]
        return looked
    try:
        seen = inspect(
            lens.bound,
            lens.tokenizer,
            stored.prompt_ids,
            stored.output_ids,
            row.finish_reason or "",
            matched_value(row.finish_matched),
            tools=None if found.body is None else found.body.tools,
            stop_ids=lens.stop_ids,
            off=lens.off,
        )
        text = read_text(lens, found.body, stored.output_ids, seen.segmentation, row.finish_reason)
    except Exception as error:
        log.exception("not_rederived", sample_id=row.id, attempt=row.attempt)
        looked.flags = [unread(f"{error!r}.")]
        return looked
    looked.answer_hash = text.answer_hash
    flags = (*_of_prompt(lens, found.body), *seen.flags, *text.flags)
    looked.flags = [flag_values(flag) for flag in flags]
    looked.segments = segments_json(seen)
    looked.figures = {
        "reasoning_tokens": seen.reasoning_tokens,
        "kinds": seen.kinds,
        "preview": clean_text(seen.preview),
    }
    return looked


def _of_prompt(lens: Lens, body: PromptData | None) -> tuple[Any, ...]:
    if body is None:
        return ()
    try:
        return prompt_flags(render_body(lens.tokenizer, lens.settings, body), lens.off)
    except TokensError:
        return ()
