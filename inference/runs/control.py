"""What people do to a run: pause, resume, cancel, retry, regenerate, delete.

Each only writes what is wanted; the worker sees it within a fraction of a second and does it. Old attempts are always kept.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func
from sqlmodel import Session, col, select

from db.errors import Conflict, Invalid, NotFound
from db.filters import Filter, parse_body
from db.queries.samples import count_samples, iter_sample_ids
from db.states import move_run
from db.tables import (
    Attempt,
    Comment,
    Export,
    Rederivation,
    Review,
    Run,
    RunBackend,
    RunCategory,
    RunEvent,
    Sample,
    SampleFlag,
    SampleTag,
)
from inference.context import Context
from inference.runs.reset import reset_samples
from inference.runs.resolve import find_backends
from inference.runs.sampling import check_sampling
from inference.runs.settings import RunSettings, Sampling, merged_sampling

SETTLED = ("completed", "completed_with_failures", "cancelled", "failed")
"""Nothing more happens to such a run by itself."""


def get_run(s: Session, run_id: int) -> Run:
    """The run.

    Raises:
        NotFound: there is none of that id.
    """
    run = s.get(Run, run_id)
    if run is None:
        raise NotFound("run", run_id)
    return run


def allowed_actions(run: Run, *, failed: int, done: int, rederiving: bool = False) -> list[str]:
    """The actions that are legal now; while a rederive is at work no other one is."""
    actions = {
        "queued": ["pause", "cancel"],
        "running": ["pause", "cancel", "regenerate"],
        "pausing": ["cancel"],
        "paused": ["resume", "cancel", "regenerate", "rederive", "delete"],
        "cancelling": [],
        "failed": ["resume", "regenerate", "rederive", "delete"],
    }.get(run.state, ["regenerate", "rederive", "delete"])
    if rederiving and "rederive" in actions:
        actions.remove("rederive")
    if failed and run.state in {"running", "paused", *SETTLED}:
        actions.append("retry")
    if done:
        actions.append("export")
    return actions


def run_actions(s: Session, run: Run) -> list[str]:
    """The actions that are legal now, by the run's counters."""
    sums = [func.coalesce(func.sum(column), 0) for column in (RunCategory.failed, RunCategory.done)]
    failed, done = s.execute(select(*sums).where(col(RunCategory.run_id) == run.id)).one()
    active = select(col(Rederivation.id)).where(
        col(Rederivation.run_id) == run.id, col(Rederivation.state).in_(("queued", "running"))
    )
    rederiving = s.exec(active.limit(1)).first() is not None
    return allowed_actions(run, failed=int(failed), done=int(done), rederiving=rederiving)


def pause_run(s: Session, run_id: int, *, by: str = "") -> Run:
    """Stop sending; what is in flight may finish. A running run is `pausing`, then `paused`; a queued one is paused at once.

    Raises:
        NotFound: no such run.
        Conflict: `illegal_move`, it is neither queued nor running.
    """
    run = check_action(s, run_id, "pause", ("queued", "running"))
    reason = f"Paused by {by}." if by else "Paused by a person."
    to = "paused" if run.state == "queued" else "pausing"
    return move_run(s, run_id, to, reason_kind="person", reason=reason, only_from=(run.state,))


def resume_run(s: Session, run_id: int) -> Run:
    """Queue a paused or failed run again; the guard starts afresh.

    Raises:
        NotFound: no such run.
        Conflict: `illegal_move`, it is neither paused nor failed.
    """
    run = check_action(s, run_id, "resume", ("paused", "failed"))
    run.generation += 1
    s.add(run)
    s.flush()
    return move_run(s, run_id, "queued", only_from=("paused", "failed"))


def cancel_run(s: Session, run_id: int, *, by: str = "") -> Run:
    """Abort what is in flight; what was not done becomes `skipped`, what was done stays.

    Raises:
        NotFound: no such run.
        Conflict: `illegal_move`, it has ended already.
    """
    states = ("queued", "running", "pausing", "paused")
    check_action(s, run_id, "cancel", states)
    reason = f"Cancelled by {by}." if by else "Cancelled by a person."
    return move_run(s, run_id, "cancelling", reason_kind="person", reason=reason, only_from=states)


def retry_failed(s: Session, run_id: int) -> int:
    """Put the failed samples back to work, with the settings they had; a run that had ended is queued again.

    Returns:
        How many samples.

    Raises:
        NotFound: no such run.
        Conflict: the run is on its way to another state, or nothing failed (`nothing_failed`).
    """
    run = _redoable(s, run_id, "retry")
    count = _put_back(s, run, parse_body({"state": ["failed"]}), None)
    if not count:
        raise Conflict("nothing_failed", f"Run {run.name} has no failed samples.")
    _go_on(s, run, "retried", f"{count:,} failed samples are tried again.")
    return count


def regenerate(
    s: Session,
    ctx: Context,  # noqa: ARG001  (what acts on runs is called alike, and later checks will need it)
    run_id: int,
    flt: Filter,
    sampling: dict[str, Any] | Sampling | None = None,
    backend_ids: Sequence[int] | None = None,
    expected_count: int | None = None,
) -> int:
    """Make every sample of the filter again. Their attempts are kept; verdicts and tags stay with the attempt they judged.

    Args:
        s: a write session.
        ctx: the context.
        run_id: the run.
        flt: which samples; an empty filter means all of them.
        sampling: values put over the run's for the new attempts.
        backend_ids: the backends that make the new attempts, instead of the run's.
        expected_count: refuse if the filter no longer matches exactly so many.

    Returns:
        How many samples; a run that had ended is queued again, a paused one stays paused.

    Raises:
        NotFound: no such run.
        Conflict: the run is on its way to another state; `count_changed`.
        Invalid: `nothing_matches`, `backend_unknown`, or a sampling value out of range.
    """
    run = _redoable(s, run_id, "regenerate")
    if expected_count is not None:
        found, _ = count_samples(s, run_id, flt, cap=max(10_000, expected_count + 1))
        if found != expected_count:
            raise Conflict(
                "count_changed", f"The filter matches {found:,} samples now, not {expected_count:,}: look again first."
            )
    run.generation += 1
    change = _override(s, run, sampling, backend_ids)
    if change:
        run.overrides = {**run.overrides, str(run.generation): change}
    s.add(run)
    s.flush()
    count = _put_back(s, run, flt, run.generation)
    if not count:
        raise Invalid("nothing_matches", "No sample of this run matches the filter.", field="filter")
    _go_on(s, run, "regenerated", f"{count:,} samples are made again.", {"filter": flt.to_json(), **change})
    return count


def delete_run(ctx: Context, run_id: int) -> None:
    """Delete a run with everything that hangs on it, its ids last. Owns its transaction.

    Raises:
        NotFound: no such run.
        Conflict: `illegal_move`, pause or cancel it first.
    """
    with ctx.db.write() as s:
        check_action(s, run_id, "delete", ("paused", *SETTLED))
        samples = select(col(Sample.id)).where(col(Sample.run_id) == run_id)
        s.execute(delete(Comment).where(col(Comment.sample_id).in_(samples)))
        hanging: tuple[Any, ...] = (
            *(SampleTag, Review, SampleFlag, Attempt, Sample),
            *(Export, Rederivation, RunEvent, RunCategory, RunBackend),
        )
        for table in hanging:
            s.execute(delete(table).where(table.run_id == run_id))
        s.execute(delete(Run).where(col(Run.id) == run_id))
    ctx.ids.drop(run_id)


def check_action(s: Session, run_id: int, action: str, states: Sequence[str]) -> Run:
    """The run, if it is in one of these states, locked: of two regenerates at once each gets a generation of its own.

    Args:
        s: a write session.
        run_id: the run.
        action: its name, for the sentence.
        states: those that allow it.

    Raises:
        NotFound: no such run.
        Conflict: `illegal_move`, with the actions that are legal now.
    """
    run = s.get(Run, run_id, with_for_update=True, populate_existing=True)
    if run is None:
        raise NotFound("run", run_id)
    if run.state not in states:
        allowed = run_actions(s, run)
        raise Conflict(
            "illegal_move",
            f"Run {run.name} is {run.state.replace('_', ' ')}: {action} is not possible now "
            f"(possible: {', '.join(allowed) or 'nothing'}).",
            allowed=allowed,
        )
    return run


def _redoable(s: Session, run_id: int, action: str) -> Run:
    return check_action(s, run_id, action, ("running", "paused", *SETTLED))


def _override(
    s: Session,
    run: Run,
    sampling: dict[str, Any] | Sampling | None,
    backend_ids: Sequence[int] | None,
) -> dict[str, Any]:
    change: dict[str, Any] = {}
    if sampling:
        given = sampling.model_dump() if isinstance(sampling, Sampling) else sampling
        values = {name: value for name, value in given.items() if value is not None}
        settings = RunSettings.model_validate(run.settings)
        try:
            merged = merged_sampling(settings.sampling, values)
        except ValueError as error:
            raise Invalid("sampling_invalid", _first_line(error), field="sampling") from error
        check_sampling(merged, settings.vocab_size)
        if values:
            change["sampling"] = values
    if backend_ids and run.id is not None:
        backends = find_backends(s, backend_ids)
        known = set(s.exec(select(col(RunBackend.backend_id)).where(col(RunBackend.run_id) == run.id)).all())
        for backend in backends:
            if backend.id is not None and backend.id not in known:
                s.add(RunBackend(run_id=run.id, backend_id=backend.id))
        change["backend_ids"] = [backend.id for backend in backends]
    return change


def _first_line(error: ValueError) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"sampling.{'.'.join(str(part) for part in first['loc'])}: {first['msg']}."
    return str(error)


def _put_back(s: Session, run: Run, flt: Filter, generation: int | None) -> int:
    assert run.id is not None  # noqa: S101  (read from the database)
    run.collection_due += 1  # answers go: what was said of the others beside them may no longer hold
    s.add(run)
    s.flush()
    return sum(
        reset_samples(s, run.id, batch, generation=generation) for batch in iter_sample_ids(s, run.id, flt, batch=1000)
    )


def _go_on(s: Session, run: Run, kind: str, message: str, detail: dict[str, Any] | None = None) -> None:
    assert run.id is not None  # noqa: S101  (read from the database)
    s.add(RunEvent(run_id=run.id, kind=kind, message=message, detail=detail or {}))
    if run.state in SETTLED:
        move_run(s, run.id, "queued", only_from=SETTLED)
    s.flush()
