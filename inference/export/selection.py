"""Which samples of a run are exported, and for each of the others the first reason why it is not.

The reasons are tried in the order of `REASONS`, so that the counts are the same whoever looks. All but the last five are
decided from rows alone, without touching ids.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, select
from sqlmodel import Session, col

from db.filters import Filter
from db.queries.anyof import any_of
from db.queries.conditions import is_sqlite
from db.queries.samples import iter_sample_ids
from db.tables import Attempt, Review, Sample, SampleFlag
from inference.export.options import ALL_FLAGS, ExportOptions

REASONS: Final = {
    "outside_filter": "outside the export's filter",
    "unfinished": "not generated yet",
    "failed": "generation failed",
    "skipped": "skipped",
    "truncated": "cut off at the token limit",
    "not_stopped": "did not end by a stop",
    "bad": "somebody called it bad",
    "not_good": "nobody called it good",
    "flagged": "flagged as an error by a check",
    "too_long": "longer than max_length",
    "too_few_trained": "fewer trained tokens than min_loss_tokens",
    "ids_missing": "its ids are not in the id store",
    "ids_damaged": "its stored ids are damaged",
    "ids_inconsistent": "its stored ids differ in number from what the server reported",
    "prompt_empty": "it has no prompt ids: every token would be trained",
    "id_too_large": "an id does not fit 31 bits",
}
"""{reason: in words}, in the order in which they are tried"""

UNFINISHED: Final = {"pending", "in_flight"}
_OF_TRUNCATION: Final = {"truncated", "reasoning_unclosed", "tool_call_unclosed", "ends_inside_character"}
_VERDICTS: Final = ("good", "bad")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the choice needs to know of one sample; verdicts and flags are those of its current attempt."""

    id: int
    state: str
    attempt: int
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    source_id: str
    category: str
    turn: int
    repeat: int
    verdicts: frozenset[str]
    error_flags: frozenset[str]
    after_stop: int | None
    """Where ids after the stop begin, in output ids; they are no part of the answer"""

    @property
    def answer_tokens(self) -> int:
        """Output ids up to and with the stop."""
        return self.completion_tokens if self.after_stop is None else min(self.after_stop, self.completion_tokens)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an attempt came from, for the manifest and the row's meta."""

    backend_id: int | None
    backend_start_id: int | None
    weight_version: str | None
    finish_matched: str | None
    sampling: dict[str, Any]


def matching_ids(s: Session, run_id: int, flt: Filter) -> "array[int]":
    """Ids of the run's samples inside the filter, ascending whatever the filter's sort (8 bytes each)."""
    found: array[int] = array("q")
    for batch in iter_sample_ids(s, run_id, Filter(flt.conditions), 10_000):
        found.extend(batch)
    return found


def batches(ids: "array[int]", size: int) -> Iterator[list[int]]:
    """The ids in lists of `size`."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size].tolist()


def load(s: Session, ids: list[int]) -> list[Candidate]:
    """Candidates by ascending id; a sample that is gone is left out."""
    sqlite = is_sqlite(s)
    inside = any_of(Sample.id, ids, sqlite=sqlite)
    names = ("id", "state", "attempt", "finish_reason", "prompt_tokens", "completion_tokens")
    columns = [getattr(Sample, name) for name in (*names, "source_id", "category", "turn", "repeat")]
    rows = s.execute(select(*columns).where(inside).order_by(col(Sample.id))).all()
    verdicts: dict[int, set[str]] = {}
    current = (col(Sample.id) == col(Review.sample_id)) & (col(Sample.attempt) == col(Review.attempt))
    spoken = select(col(Review.sample_id), col(Review.verdict)).join(Sample, current)
    for sample_id, verdict in s.execute(spoken.where(inside, col(Review.verdict).in_(_VERDICTS))):
        verdicts.setdefault(sample_id, set()).add(str(verdict))
    errors, after_stop = _flags(s, any_of(SampleFlag.sample_id, ids, sqlite=sqlite))
    return [
        Candidate(
            id=row.id,
            state=row.state,
            attempt=row.attempt,
            finish_reason=row.finish_reason,
            prompt_tokens=row.prompt_tokens or 0,
            completion_tokens=row.completion_tokens or 0,
            source_id=row.source_id,
            category=row.category,
            turn=row.turn,
            repeat=row.repeat,
            verdicts=frozenset(verdicts.get(row.id, ())),
            error_flags=frozenset(errors.get(row.id, ())),
            after_stop=after_stop.get(row.id),
        )
        for row in rows
    ]


def _flags(s: Session, inside: ColumnElement[bool]) -> tuple[dict[int, set[str]], dict[int, int]]:
    errors: dict[int, set[str]] = {}
    after_stop: dict[int, int] = {}
    columns = (col(SampleFlag.sample_id), col(SampleFlag.code), col(SampleFlag.severity), col(SampleFlag.start))
    for sample_id, code, severity, start in s.execute(select(*columns).where(inside)):
        if severity == "error":
            errors.setdefault(sample_id, set()).add(code)
        if code == "after_stop" and start is not None:
            after_stop[sample_id] = min(start, after_stop.get(sample_id, start))
    return errors, after_stop


def origins(s: Session, candidates: list[Candidate]) -> dict[int, Origin]:
    """Where each sample's current attempt came from, by sample id."""
    numbers = {candidate.id: candidate.attempt for candidate in candidates}
    columns = ("sample_id", "number", "backend_id", "backend_start_id", "weight_version", "finish_matched", "sampling")
    query = select(*(getattr(Attempt, name) for name in columns))
    rows = s.execute(query.where(any_of(Attempt.sample_id, numbers, sqlite=is_sqlite(s))))
    return {row.sample_id: Origin(*row[2:]) for row in rows if row.number == numbers[row.sample_id]}


def reason_against(sample: Candidate, options: ExportOptions) -> str | None:
    """The first reason, as far as rows can tell, why the sample is left out; None where it is taken."""
    return _state_against(sample, options) or _people_against(sample, options) or _figures_against(sample, options)


def _state_against(sample: Candidate, options: ExportOptions) -> str | None:
    if sample.state != "done":
        return "unfinished" if sample.state in UNFINISHED else sample.state
    if sample.finish_reason == "length":
        return None if options.include_truncated else "truncated"
    return None if sample.finish_reason == "stop" else "not_stopped"


def _people_against(sample: Candidate, options: ExportOptions) -> str | None:
    if "bad" in sample.verdicts and not options.include_bad:
        return "bad"
    return "not_good" if options.require_good and "good" not in sample.verdicts else None


def _figures_against(sample: Candidate, options: ExportOptions) -> str | None:
    forgiven = {*options.include_flagged, *(_OF_TRUNCATION if sample.finish_reason == "length" else ())}
    if ALL_FLAGS not in forgiven and sample.error_flags - forgiven:
        return "flagged"
    trained = sample.answer_tokens
    if options.max_length is not None and sample.prompt_tokens + trained > options.max_length:
        if options.over_length == "drop":
            return "too_long"
        trained = max(0, options.max_length - sample.prompt_tokens)
    return "too_few_trained" if trained < options.min_loss_tokens else None
