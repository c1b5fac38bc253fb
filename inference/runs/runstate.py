"""The runner's dealings with its run's row: opening it, looking at it, and moving it on. Each call is one short transaction."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func
from sqlmodel import Session, col, select

from db.errors import Conflict
from db.states import move_run
from db.tables import Backend, BackendStart, Run, RunBackend, RunCategory, RunEvent
from inference.context import Context
from inference.runs.reset import move_all
from inference.runs.resultrows import Lens
from inference.runs.settings import RunSettings
from inference.tokens import formats
from inference.tokens.errors import TokensError

ACTIVE: Final = ("queued", "running", "pausing", "cancelling")
"""A run in such a state has a runner"""
SKIP_BATCH: Final = 5000


class RunBroken(Exception):  # noqa: N818  (named for what it is)
    """The run cannot be worked on; the sentence says why and what to do."""


@dataclass(slots=True)
class Seen:
    """A run and its backends, as their rows stand. `state` is `gone` where the run was deleted."""

    state: str
    reason_kind: str | None
    generation: int
    overrides: dict[int, dict[str, Any]]
    pending: int
    backends: list[tuple[Backend, BackendStart | None]]


def open_lens(ctx: Context, run: Run) -> Lens:
    """What it takes to read and render a run: its settings, its tokenizer, unchanged since launch, and its token format.

    Ids are read by the format that a rederive named last, else by that of the settings; prompts are rendered as the settings say.

    Raises:
        RunBroken: the tokenizer cannot be loaded any more, or is not the one the run was launched with.
    """
    settings = RunSettings.model_validate(run.settings)
    try:
        tokenizer = ctx.tokenizers.get(settings.tokenizer)
        bound = formats.bind(formats.get_format(run.token_format or settings.token_format), tokenizer)
    except TokensError as error:
        raise RunBroken(f"Tokenizer {settings.tokenizer} cannot be used: {error.message}") from error
    if tokenizer.sha256 != settings.tokenizer_sha256 or tokenizer.template_sha256 != settings.template_sha256:
        raise RunBroken(
            f"Tokenizer {settings.tokenizer} was changed since this run was launched: put the old files back, or launch a "
            "new run."
        )
    return Lens(settings, tokenizer, bound)


def open_run(ctx: Context, run_id: int) -> Lens | None:
    """Take a run up: what a dead runner left in flight is pending again. None where the run needs no runner.

    Raises:
        RunBroken: as `open_lens`.
    """
    with ctx.db.write() as s:
        run = s.get(Run, run_id)
        if run is None or run.state not in ACTIVE:
            return None
        count = move_all(s, run_id, "in_flight", "pending")
        if count:
            s.add(
                RunEvent(
                    run_id=run_id, kind="recovered", message=f"{count:,} samples that were in flight are pending again."
                )
            )
    with ctx.db.read() as s:
        run = s.get(Run, run_id)
        return None if run is None else open_lens(ctx, run)


def recover_all(ctx: Context) -> int:
    """At a worker's start nothing is in flight, whatever the rows say: put it back, in every run. Returns how many."""
    with ctx.db.read() as s:
        run_ids = s.exec(select(col(RunCategory.run_id)).where(col(RunCategory.in_flight) > 0).distinct()).all()
    total = 0
    for run_id in run_ids:
        with ctx.db.write() as s:
            total += move_all(s, run_id, "in_flight", "pending")
    return total


def active_runs(ctx: Context) -> list[int]:
    """The runs that need a runner, oldest first."""
    with ctx.db.read() as s:
        found = s.exec(select(col(Run.id)).where(col(Run.state).in_(ACTIVE)).order_by(col(Run.id))).all()
        return [run_id for run_id in found if run_id is not None]


def muted_codes(ctx: Context, run_id: int) -> frozenset[str]:
    """The faults for which the guard stopped this run and a person let it go on; a regenerate forgets them."""
    kinds = ("guard", "regenerated")
    with ctx.db.read() as s:
        query = select(RunEvent).where(col(RunEvent.run_id) == run_id, col(RunEvent.kind).in_(kinds))
        events = s.exec(query.order_by(col(RunEvent.id))).all()
        muted: set[str] = set()
        for event in events:
            if event.kind == "guard":
                muted.add(str(event.detail.get("code")))
            else:
                muted.clear()
    return frozenset(muted)


def look(ctx: Context, run_id: int) -> Seen:
    """How things stand."""
    with ctx.db.read() as s:
        run = s.get(Run, run_id)
        if run is None:
            return Seen("gone", None, 0, {}, 0, [])
        backends = s.exec(
            select(Backend, BackendStart)
            .join(RunBackend, col(RunBackend.backend_id) == col(Backend.id))
            .join(BackendStart, col(BackendStart.id) == col(Backend.start_id), isouter=True)
            .where(col(RunBackend.run_id) == run_id)
            .order_by(col(Backend.id))
        ).all()
        pending, _, _ = _counts(s, run_id)
        seen = Seen(
            state=run.state,
            reason_kind=run.reason_kind,
            generation=run.generation,
            overrides={int(number): change for number, change in run.overrides.items()},
            pending=pending,
            backends=[(backend, start) for backend, start in backends],
        )
        s.expunge_all()
        return seen


def _counts(s: Session, run_id: int) -> tuple[int, int, int]:
    """(pending, in flight, failed)."""
    sums = [
        func.coalesce(func.sum(column), 0)
        for column in (RunCategory.pending, RunCategory.in_flight, RunCategory.failed)
    ]
    pending, in_flight, failed = s.execute(select(*sums).where(col(RunCategory.run_id) == run_id)).one()
    return int(pending), int(in_flight), int(failed)


def start(ctx: Context, run_id: int) -> None:
    """Queued → running; nothing where somebody else moved it first."""
    _move(ctx, run_id, "running", ("queued",))


def say(ctx: Context, run_id: int, waiting: tuple[str, str] | None) -> None:
    """Say why a run waits, as (kind, sentence), or that it goes on."""
    with ctx.db.write() as s:
        run = s.get(Run, run_id)
        if run is None or run.state not in {"queued", "running"}:
            return
        if waiting is None:
            if run.reason_kind != "no_backend":
                return
            run.reason_kind, run.reason = None, ""
            s.add(RunEvent(run_id=run_id, kind="going_on", message="A backend is ready."))
        else:
            if run.reason_kind != waiting[0]:
                s.add(RunEvent(run_id=run_id, kind="waiting", message=waiting[1]))
            run.reason_kind, run.reason = waiting
        s.add(run)


def settle(ctx: Context, run_id: int) -> bool:
    """Complete the run if no sample is left to do; True where it is settled now.

    The caller holds nothing of the run: what the rows still call in flight was dropped on the way and is pending again.
    """
    with ctx.db.write() as s:
        pending, in_flight, failed = _counts(s, run_id)
        if pending == 0 and in_flight:
            move_all(s, run_id, "in_flight", "pending")
            return False
        if pending:
            return False
        to = "completed_with_failures" if failed else "completed"
        reason = f"{failed:,} samples failed." if failed else ""
        try:
            move_run(s, run_id, to, reason=reason, only_from=("queued", "running"))
        except Conflict:
            return False
    return True


def stop_for(ctx: Context, run_id: int, kind: str, reason: str, detail: dict[str, Any]) -> None:
    """Pause a run for a cause of its own: the guard, or an error."""
    with ctx.db.write() as s:
        run = s.get(Run, run_id)
        if run is None or run.state not in {"queued", "running"}:
            return
        to = "pausing" if run.state == "running" else "paused"
        move_run(s, run_id, to, reason_kind=kind, reason=reason, only_from=(run.state,))
        s.add(RunEvent(run_id=run_id, kind=kind, message=reason, detail=detail))


def paused(ctx: Context, run_id: int) -> None:
    """Pausing → paused, with the reason that it was given."""
    with ctx.db.write() as s:
        move_all(s, run_id, "in_flight", "pending")
        run = s.get(Run, run_id)
        if run is not None and run.state == "pausing":
            move_run(s, run_id, "paused", reason_kind=run.reason_kind, reason=run.reason, only_from=("pausing",))


def skip_batch(ctx: Context, run_id: int) -> bool:
    """Some of a cancelled run's samples that were not done become skipped; True while there may be more."""
    with ctx.db.write() as s:
        move_all(s, run_id, "in_flight", "pending")
        return move_all(s, run_id, "pending", "skipped", limit=SKIP_BATCH) == SKIP_BATCH


def cancelled(ctx: Context, run_id: int) -> None:
    """Cancelling → cancelled."""
    with ctx.db.write() as s:
        run = s.get(Run, run_id)
        if run is not None and run.state == "cancelling":
            move_run(s, run_id, "cancelled", reason_kind=run.reason_kind, reason=run.reason, only_from=("cancelling",))


def broken(ctx: Context, run_id: int, reason: str) -> None:
    """A run that cannot be worked on: failed, with the reason."""
    with ctx.db.write() as s:
        run = s.get(Run, run_id)
        if run is not None and run.state in {"queued", "running", "pausing"}:
            move_all(s, run_id, "in_flight", "pending")
            move_run(s, run_id, "failed", reason_kind="error", reason=reason, only_from=(run.state,))


def _move(ctx: Context, run_id: int, to: str, only_from: tuple[str, ...]) -> None:
    with ctx.db.write() as s:
        run = s.get(Run, run_id)
        if run is not None and run.state in only_from:
            move_run(s, run_id, to, only_from=only_from)
