"""One sample, whole: its attempt with segments and flags, its exact tokens, its other attempts."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from db.errors import NotFound, Unavailable
from db.idstore import AttemptIds
from db.queries.samples import flags_of
from db.tables import Attempt, Backend, BackendStart, Run, Sample
from inference.context import Context
from inference.prompts.service import PromptData, prompt_bodies
from inference.review.engine import drift_view, engine_reading_views
from inference.review.judged import get_sample
from inference.review.reading import (
    Segmented,
    bare_segment_views,
    flag_view_of,
    inspect_again,
    lens_of,
    piece_views,
    segment_ids,
    segment_views,
    stored_segments,
)
from inference.review.reviews import my_review
from inference.review.rows import flag_view, judged_row, list_sample_rows, sample_neighbours, sample_row, sample_rows
from inference.review.views import (
    AttemptView,
    DriftView,
    EngineReadingView,
    FlagView,
    SampleTokens,
    SampleView,
    SegmentView,
)
from inference.runs.resultrows import matched_value

__all__ = [
    "Segmented",
    "list_attempts",
    "list_sample_rows",
    "sample_neighbours",
    "sample_row",
    "sample_rows",
    "sample_tokens",
    "sample_view",
    "segment_ids",
]

_NO_IDS = AttemptIds(np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint32))


def sample_view(s: Session, ctx: Context, sample_id: int, user_id: int, attempt: int | None = None) -> SampleView:
    """A sample with its current attempt, or with an older one, whose flags are made again from its ids.

    Args:
        s: a session.
        ctx: the context.
        sample_id: which.
        user_id: whose review is `my_review`.
        attempt: an attempt's number; None = the current one, or none where there is none yet.

    Raises:
        NotFound: no such sample or attempt.

    Without the run's tokenizer the segments have no text and a flag `tokenizer_gone` says why; all else is there.
    """
    sample = get_sample(s, sample_id)
    run = _run(s, sample)
    found = _attempt(s, sample, attempt)
    body = prompt_bodies(s, [sample.prompt_id]).get(sample.prompt_id) or PromptData([], None)
    seen = _as_seen_by(sample, found)
    row = judged_row(s, seen)
    read = _read(s, ctx, run, sample, found, body)
    return SampleView(
        **{**row.model_dump(), "flags": read.flags},
        run_name=run.name,
        segments=read.segments,
        engine_readings=read.readings,
        drift=read.drift,
        prompt_messages=body.messages,
        tools=body.tools,
        attempt_detail=None if found is None else _attempt_views(s, sample, [found])[0],
        my_review=my_review(s, seen, user_id),
    )


def sample_tokens(
    s: Session, ctx: Context, sample_id: int, attempt: int | None = None, with_pieces: bool = False
) -> SampleTokens:
    """The exact ids of an attempt (None = the current one): empty where it has none.

    Raises:
        NotFound: no such sample or attempt.
        Unavailable: `tokenizer_gone`, when pieces are asked for.
    """
    sample = get_sample(s, sample_id)
    found = _attempt(s, sample, attempt)
    number = 0 if found is None else found.number
    ids = ctx.ids.get(sample.run_id, (sample_id, number)) or _NO_IDS
    pieces, prompt_pieces = None, None
    if with_pieces:
        tokenizer = lens_of(ctx, _run(s, sample)).tokenizer
        pieces = piece_views(tokenizer, ids.output_ids)
        prompt_pieces = piece_views(tokenizer, ids.prompt_ids)
    return SampleTokens.model_construct(
        sample_id=sample_id,
        attempt=number,
        prompt_ids=ids.prompt_ids.tolist(),
        output_ids=ids.output_ids.tolist(),
        prompt_pieces=prompt_pieces,
        pieces=pieces,
    )


def list_attempts(s: Session, ctx: Context, sample_id: int) -> list[AttemptView]:  # noqa: ARG001  (called like its siblings)
    """All attempts, the last one first.

    Raises:
        NotFound: no such sample.
    """
    sample = get_sample(s, sample_id)
    query = select(Attempt).where(col(Attempt.sample_id) == sample_id).order_by(col(Attempt.number).desc())
    return _attempt_views(s, sample, list(s.exec(query).all()))


def _run(s: Session, sample: Sample) -> Run:
    run = s.get(Run, sample.run_id)
    if run is None:
        raise NotFound("run", sample.run_id)
    return run


def _attempt(s: Session, sample: Sample, number: int | None) -> Attempt | None:
    wanted = sample.attempt if number is None else number
    found = s.get(Attempt, (sample.id, wanted)) if wanted else None
    if found is None and number is not None:
        raise NotFound(f"attempt of sample {sample.id}, number", number)
    return found


def _as_seen_by(sample: Sample, attempt: Attempt | None) -> Sample:
    """The sample with another attempt's figures, as a value that no session knows."""
    values: dict[str, Any] = sample.model_dump()
    if attempt is not None and attempt.number != sample.attempt:
        values |= {
            "attempt": attempt.number,
            "state": attempt.state,
            "finish_reason": attempt.finish_reason,
            "prompt_tokens": attempt.prompt_tokens,
            "completion_tokens": attempt.completion_tokens,
            "reasoning_tokens": attempt.reasoning_tokens,
            "preview": attempt.preview,
            "error": attempt.error,
            "error_code": attempt.error_code,
        }
    return Sample(**values)


@dataclass(slots=True)
class _Read:
    """What an attempt's ids say."""

    segments: list[SegmentView] = field(default_factory=list)
    flags: list[FlagView] = field(default_factory=list)
    readings: list[EngineReadingView] = field(default_factory=list)
    drift: DriftView | None = None


def _read(s: Session, ctx: Context, run: Run, sample: Sample, attempt: Attempt | None, body: PromptData) -> _Read:
    if attempt is None or sample.id is None:
        return _Read()
    current = attempt.number == sample.attempt
    flags = [flag_view(flag) for flag in flags_of(s, [sample.id])[sample.id]] if current else []
    ids = ctx.ids.get(sample.run_id, (sample.id, attempt.number))
    if ids is None or not len(ids.output_ids):
        return _Read(flags=flags)
    segments = stored_segments(attempt.segments)
    try:
        lens = lens_of(ctx, run)
    except Unavailable as error:  # ids, facts, flags and judgements are shown all the same
        missing = FlagView(code=error.code, severity="info", start=None, end=None, message=error.message)
        return _Read(bare_segment_views(segments), [missing, *flags])
    matched = matched_value(attempt.finish_matched)
    if segments and current:
        cut = lens.segment(ids.prompt_ids, ids.output_ids, attempt.finish_reason, matched)
    else:  # an older one is read as the current one would be: a rederive has not come to it
        again = inspect_again(lens, ids, attempt.finish_reason, matched, body)
        cut, segments = again.segmentation, list(again.segmentation.segments)
        flags = flags if current else [flag_view_of(flag) for flag in again.flags]
    return _Read(
        segment_views(lens.bound, lens.tokenizer, ids.output_ids, segments, body.tools),
        flags,
        engine_reading_views(lens, ids.output_ids, cut, tools=bool(body.tools)),
        drift_view(lens, ids.output_ids, cut),
    )


def _attempt_views(s: Session, sample: Sample, attempts: list[Attempt]) -> list[AttemptView]:
    start_ids = [attempt.backend_start_id for attempt in attempts if attempt.backend_start_id is not None]
    starts = {row.id: row for row in s.exec(select(BackendStart).where(col(BackendStart.id).in_(start_ids))).all()}
    backend_ids = {attempt.backend_id for attempt in attempts if attempt.backend_id is not None}
    backends = {row.id: row for row in s.exec(select(Backend).where(col(Backend.id).in_(backend_ids))).all()}
    views: list[AttemptView] = []
    for attempt in attempts:
        start = starts.get(attempt.backend_start_id)
        backend = backends.get(attempt.backend_id)
        views.append(
            AttemptView(
                number=attempt.number,
                state=attempt.state,
                current=attempt.number == sample.attempt,
                finish_reason=attempt.finish_reason,
                finish_matched=matched_value(attempt.finish_matched),
                prompt_tokens=attempt.prompt_tokens,
                completion_tokens=attempt.completion_tokens,
                reasoning_tokens=attempt.reasoning_tokens,
                flag_count=attempt.flag_count,
                sampling=attempt.sampling,
                backend_id=attempt.backend_id,
                backend_name=None if backend is None else backend.name,
                backend_start=None if start is None else start.number,
                version=(start and start.version) or (backend and backend.version),
                weight_version=attempt.weight_version,
                cached_tokens=attempt.cached_tokens,
                latency_s=attempt.latency_s,
                error=attempt.error,
                error_code=attempt.error_code,
                started_at=attempt.started_at,
                finished_at=attempt.finished_at,
            )
        )
    return views
