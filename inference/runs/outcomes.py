"""What became of a sample that was taken up: the values that go from the runner to the one writer."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from db.idstore import Ids
from inference.quality.flags import Flag


@dataclass(slots=True)
class Work:
    """One leased sample, rendered: everything a request needs. `number` is that of the attempt being made."""

    sample_id: int
    lease: int
    prompt_id: int
    turn: int
    repeat: int
    category: str
    number: int
    generation: int
    prompt_ids: Ids
    tools: list[dict[str, Any]] | None
    prompt_flags: tuple[Flag, ...] = ()
    tried: int = 0
    """Attempts already spent under this lease"""


class Ending(StrEnum):
    """How an outcome leaves its sample."""

    DONE = "done"
    FAILED = "failed"
    TRIED = "tried"
    """An attempt failed and is recorded; the sample stays in flight for another"""
    RELEASED = "released"
    """Back to pending, no attempt spent"""


@dataclass(slots=True)
class Outcome:
    """The end of one attempt. For RELEASED only `work` matters."""

    work: Work
    ending: Ending
    started_at: datetime
    finished_at: datetime
    number: int = 0
    error_code: str | None = None
    error: str | None = None
    output_ids: Ids | None = None
    finish_reason: str | None = None
    finish_matched: Any = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    weight_version: str | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    """What was sent that differs from the run's settings, the seed among it"""
    backend_id: int | None = None
    backend_start_id: int | None = None
    rid: str | None = None
    latency_s: float | None = None
