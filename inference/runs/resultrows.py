"""One outcome as rows: looked at, flagged, and spelled as the tables want it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson
import structlog

from db.idstore import Ids
from db.kinds import kind_bit
from inference.quality import guard as guards
from inference.quality.flags import Flag
from inference.quality.inspection import Inspection, inspect
from inference.runs.outcomes import Ending, Outcome
from inference.runs.settings import RunSettings
from inference.tokens.formats import BoundFormat
from inference.tokens.segmentation.segments import Segmentation
from inference.tokens.tokenizer import Tokenizer

log = structlog.get_logger(__name__)

_MAX_ERROR = 2000
_COUNTED = frozenset({"warning", "error"})


@dataclass(frozen=True)
class Lens:
    """What it takes to read a run's ids: its settings, tokenizer and bound token format."""

    settings: RunSettings
    tokenizer: Tokenizer
    bound: BoundFormat

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end an answer: the family's, the tokenizer's, and those the run asked for."""
        return self.bound.stop_ids.union(self.settings.sampling.stop_token_ids or ())

    @cached_property
    def off(self) -> frozenset[str]:
        """Flag codes that the run does not look for."""
        return frozenset(self.settings.checks_off)

    def segment(self, prompt_ids: Ids, output_ids: Ids, finish_reason: str | None, matched: Any) -> Segmentation:
        """Cut an answer, as `inspect` does: a stop id that only this request had ends it too."""
        stops = self.stop_ids
        if finish_reason == "stop" and isinstance(matched, int) and len(output_ids) and int(output_ids[-1]) == matched:
            stops |= {matched}
        return self.bound.segment(prompt_ids, output_ids, stops)


@dataclass(slots=True)
class ResultRow:
    """An outcome, what the checks saw in it, and its flags as columns."""

    outcome: Outcome
    inspection: Inspection | None = None
    flags: list[dict[str, Any]] = field(default_factory=list)

    @property
    def counted(self) -> int:
        """Flags of severity warning or error."""
        return sum(flag["severity"] in _COUNTED for flag in self.flags)


def look_at(lens: Lens, outcome: Outcome) -> ResultRow:
    """Segment and check an answer; one that cannot be looked at becomes the failure `inspection_failed`, its ids kept."""
    row = ResultRow(outcome)
    work = outcome.work
    if outcome.ending is Ending.DONE and outcome.output_ids is not None:
        try:
            row.inspection = inspect(
                lens.bound,
                lens.tokenizer,
                work.prompt_ids,
                outcome.output_ids,
                outcome.finish_reason or "",
                outcome.finish_matched,
                tools=work.tools,
                stop_ids=lens.stop_ids,
                off=lens.off,
            )
        except Exception as error:
            log.exception("inspection_failed", sample_id=work.sample_id, attempt=outcome.number)
            outcome.ending = Ending.FAILED
            outcome.error_code = "inspection_failed"
            outcome.error = f"The answer was received whole, but looking at it failed: {error!r}."
    if outcome.ending in {Ending.DONE, Ending.FAILED}:
        row.flags = [flag_values(flag) for flag in work.prompt_flags]
    if row.inspection is not None:
        row.flags += [flag_values(flag) for flag in row.inspection.flags]
    elif outcome.ending is Ending.FAILED and outcome.error_code == "output_empty":
        row.flags.append(
            {"code": "output_empty", "severity": "error", "start": None, "end": None, "message": outcome.error or ""}
        )
    return row


def flag_values(flag: Flag) -> dict[str, Any]:
    """A flag as columns of `sample_flags`."""
    return {
        "code": flag.code,
        "severity": flag.severity,
        "start": flag.start,
        "end": flag.end,
        "message": clean_text(flag.message),
    }


def segments_json(inspection: Inspection) -> list[list[Any]]:
    """Segments as they are stored: [kind, start, end] and the channel where there is one."""
    return [
        [seg.kind, seg.start, seg.end] if seg.channel is None else [seg.kind, seg.start, seg.end, seg.channel]
        for seg in inspection.segmentation.segments
    ]


def attempt_values(run_id: int, row: ResultRow) -> dict[str, Any]:
    """Columns of `attempts`."""
    outcome, seen = row.outcome, row.inspection
    return {
        "sample_id": outcome.work.sample_id,
        "number": outcome.number,
        "run_id": run_id,
        "state": "done" if outcome.ending is Ending.DONE else "failed",
        "finish_reason": outcome.finish_reason,
        "finish_matched": matched_json(outcome.finish_matched),
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "reasoning_tokens": None if seen is None else seen.reasoning_tokens,
        "kinds": 0 if seen is None else seen.kinds,
        "flag_count": row.counted,
        "preview": "" if seen is None else clean_text(seen.preview),
        "segments": [] if seen is None else segments_json(seen),
        "sampling": outcome.sampling,
        "backend_id": outcome.backend_id,
        "backend_start_id": outcome.backend_start_id,
        "rid": outcome.rid,
        "weight_version": outcome.weight_version,
        "cached_tokens": outcome.cached_tokens,
        "latency_s": outcome.latency_s,
        "error_code": outcome.error_code,
        "error": _cut(outcome.error),
        "started_at": outcome.started_at,
        "finished_at": outcome.finished_at,
    }


def sample_values(row: ResultRow) -> dict[str, Any]:
    """Columns of `samples` that an end sets."""
    outcome, seen = row.outcome, row.inspection
    return {
        "state": outcome.ending.value,
        "attempt": outcome.number,
        "attempts": outcome.number,
        "finish_reason": outcome.finish_reason,
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "reasoning_tokens": None if seen is None else seen.reasoning_tokens,
        "kinds": 0 if seen is None else seen.kinds,
        "flag_count": row.counted,
        "preview": "" if seen is None else clean_text(seen.preview),
        "error_code": outcome.error_code,
        "error": _cut(outcome.error),
        "backend_id": outcome.backend_id,
    }


def matched_json(matched: Any) -> str | None:
    """The stop id or string as its column keeps it."""
    return None if matched is None else clean_text(orjson.dumps(matched).decode())[:200]


def matched_value(stored: str | None) -> Any:
    """What `matched_json` kept; a string too long for the column comes back as it stands, cut."""
    if stored is None:
        return None
    try:
        return orjson.loads(stored)
    except orjson.JSONDecodeError:
        return stored


def clean_text(text: str) -> str:
    """PostgreSQL stores no NUL in text, and a model may well generate one: it is shown as its picture."""
    return text.replace("\0", "\u2400")


def _cut(text: str | None) -> str | None:
    if text is None:
        return None
    return clean_text(text if len(text) <= _MAX_ERROR else text[: _MAX_ERROR - 1] + "…")


def for_guard(row: ResultRow) -> guards.Outcome:
    """What the run's guard is told."""
    outcome = row.outcome
    return guards.Outcome(
        sample_id=outcome.work.sample_id,
        category=outcome.work.category,
        ok=outcome.ending is Ending.DONE,
        error_code=outcome.error_code,
        finish_reason=outcome.finish_reason,
        flags=frozenset(flag["code"] for flag in row.flags),
        completion_tokens=outcome.completion_tokens or 0,
        has_tool_call=None if row.inspection is None else bool(row.inspection.kinds & kind_bit("tool_call")),
    )
