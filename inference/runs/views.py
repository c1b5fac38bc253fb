"""What people and scripts see of runs."""

from datetime import datetime
from typing import Any

from pydantic import Field

from inference.model import View


class Counts(View):
    """Samples by state; `flagged` counts done samples with at least one flag of severity warning or error."""

    pending: int = 0
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    flagged: int = 0

    @property
    def total(self) -> int:
        """All samples of the run."""
        return self.pending + self.in_flight + self.done + self.failed + self.skipped


class CategoryCounts(Counts):
    """The same, within one category."""

    category: str
    checked: int = 0
    """Done samples whose text was looked at"""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Progress(View):
    """How it goes, as the worker last saw it: None where nothing was measured yet."""

    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None


class Checked(View):
    """How far the checks behind the run are: those that need an answer's text, then those that need all of its answers.

    `complete`: nothing is left to look at. `trouble`: why it cannot be looked at, in words.
    """

    done: int = 0
    total: int = 0
    complete: bool = True
    trouble: str = ""


class RederivationView(View):
    """Segments and flags made again from the ids: the last such job of a run.

    `before` and `after` count samples by flag code; `after` is there once it is done.
    """

    state: str
    """queued, running, done or failed"""
    token_format: str | None
    done: int
    total: int
    before: dict[str, int]
    after: dict[str, int]
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class LeftOut(View):
    """A backend of a run that is not sent to now: why, in words, and until when where that is known."""

    backend_id: int
    name: str
    why: str
    until: datetime | None = None


class RunView(View):
    """A run as it stands."""

    id: int
    name: str
    state: str
    reason_kind: str | None
    reason: str
    prompt_set_id: int
    backend_ids: list[int]
    left_out: list[LeftOut] = Field(default_factory=list)
    """Its backends that are not sent to now; of a run that goes on, as only there it matters"""
    counts: Counts
    categories: list[CategoryCounts]
    prompt_tokens: int
    completion_tokens: int
    progress: Progress
    checked: Checked
    rederivation: RederivationView | None
    token_format: str
    """The format its ids are read by: that of the settings, unless a rederive named another"""
    settings: dict[str, Any]
    fingerprint: str
    allowed: list[str]
    """The actions that are legal now: pause, resume, cancel, retry, regenerate, rederive, export, delete"""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RunStats(View):
    """Figures of a run: counts per value, and length quantiles of done samples."""

    counts: Counts
    by_category: list[CategoryCounts]
    finish_reasons: dict[str, int]
    flags: dict[str, int]
    verdicts: dict[str, int]
    tags: dict[str, int]
    errors: dict[str, int]
    length_histogram: list[tuple[int, int, int]]
    """[(from, to, count)] in completion tokens, half-open"""
    progress: Progress
    checked: Checked
    """Of the whole run, whatever the filter: until it is complete, flags are still to come"""


class Resolved(View):
    """One setting of a run about to be launched: its value, and where it came from in words."""

    name: str
    value: Any
    source: str


class RunPreview(View):
    """What a launch would do, before it does it."""

    settings: dict[str, Any]
    resolved: list[Resolved]
    fingerprint: str
    samples: int
    example_prompt_id: int | None
    example_text: str | None
    example_tokens: int | None
    warnings: list[str]
