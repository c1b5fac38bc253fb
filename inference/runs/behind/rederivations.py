"""Asking for a rederive, and the rows that say how the jobs stand; `inference.runs.behind.rederive` does them."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import func
from sqlmodel import Session, col, select

from db.errors import Conflict, Invalid
from db.tables import Rederivation, Run, RunEvent
from inference.context import Context
from inference.runs.control import SETTLED, check_action, run_actions
from inference.runs.settings import RunSettings
from inference.tokens import formats
from inference.tokens.errors import TokensError

ACTIVE: Final = ("queued", "running")


def request_rederive(
    s: Session, ctx: Context, run_id: int, token_format: str | None = None, user_id: int | None = None
) -> Rederivation:
    """Queue the job: the worker makes segments and flags again, from the ids of every done sample.

    Args:
        s: a write session.
        ctx: the context.
        run_id: the run.
        token_format: the format to read the ids by from now on; None: the one they are read by.
        user_id: who asks.

    Raises:
        NotFound: no such run.
        Conflict: `illegal_move`, the run is neither paused nor ended; `rederive_running`.
        Invalid: `format_unknown`, `format_not_in_vocabulary` and their like, field `token_format`.
    """
    run = check_action(s, run_id, "rederive", ("paused", *SETTLED))
    active = select(Rederivation).where(col(Rederivation.run_id) == run_id, col(Rederivation.state).in_(ACTIVE))
    job = s.exec(active.limit(1)).first()
    if job is not None:
        raise Conflict(
            "rederive_running",
            f"Segments and flags of run {run.name} are being made again already ({job.done:,} of {job.total:,}): wait for it.",
            allowed=run_actions(s, run),
        )
    if token_format is not None:
        check_format(ctx, RunSettings.model_validate(run.settings), token_format)
        _read_as(s, run, token_format)
    job = Rederivation(run_id=run_id, token_format=token_format, created_by=user_id)
    s.add(job)
    s.flush()
    return job


def _read_as(s: Session, run: Run, token_format: str) -> None:
    """From now on, not from when the job's turn comes: a run that is resumed before would be read in two ways."""
    own = run.settings.get("token_format")
    was = run.token_format or own
    if token_format == was or run.id is None:
        return
    run.token_format = None if token_format == own else token_format
    s.add(run)
    message = f"The ids are read as {token_format} from now on, not as {was}."
    detail = {"from": was, "to": token_format}
    s.add(RunEvent(run_id=run.id, kind="token_format", message=message, detail=detail))


def check_format(ctx: Context, settings: RunSettings, token_format: str) -> None:
    """Whether the run's ids can be read by that format.

    Raises:
        Invalid: with the tokens room's code and sentence, field `token_format`.
    """
    try:
        formats.bind(formats.get_format(token_format), ctx.tokenizers.get(settings.tokenizer))
    except TokensError as error:
        field = "token_format" if error.code.startswith("format") else None
        raise Invalid(error.code, error.message, field=field) from error


def last_rederivations(s: Session, run_ids: Sequence[int]) -> dict[int, Rederivation]:
    """{run id: its last job}."""
    last = select(func.max(Rederivation.id)).where(col(Rederivation.run_id).in_(run_ids))
    query = select(Rederivation).where(col(Rederivation.id).in_(last.group_by(col(Rederivation.run_id))))
    return {job.run_id: job for job in s.exec(query).all()}
