"""What people and scripts see of a sample, its tokens and what was said about it."""

from datetime import datetime
from typing import Any

from pydantic import Field

from inference.model import View


class FlagView(View):
    """What a check found: severity is info, warning or error; the cited range is half-open in output ids, None = the whole."""

    code: str
    severity: str
    start: int | None
    end: int | None
    message: str


class TagOnSample(View):
    """A tag and who set it."""

    name: str
    by: str


class VerdictOnSample(View):
    """A verdict and whose it is."""

    by: str
    verdict: str | None
    note: str = ""
    updated_at: datetime | None = None


class SampleRow(View):
    """A sample in a list."""

    id: int
    run_id: int
    prompt_id: int
    source_id: str
    category: str
    turn: int
    repeat: int
    state: str
    attempt: int
    attempts: int
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    flags: list[FlagView]
    tags: list[TagOnSample]
    verdicts: list[VerdictOnSample]
    error: str | None
    error_code: str | None
    prompt_preview: str
    preview: str


class CallView(View):
    """One call in a segment: its name (null where it cannot be read) and its raw arguments text, exactly as generated.

    `error` says what is wrong first, `position` where: a code-point offset in the segment's text.
    """

    name: str | None
    arguments: str | None
    arguments_valid: bool
    error: str | None
    position: int | None


class SegmentView(View):
    """One segment: a half-open range of the output ids, what it is, and its text (without delimiters' neighbours).

    `name`, `arguments` and `arguments_valid` are those of its first call that has a name; `calls` are all of them, in order.
    """

    kind: str
    start: int
    end: int
    text: str
    channel: str | None = None
    name: str | None = None
    arguments: str | None = None
    """Raw arguments text, exactly as generated"""
    arguments_valid: bool | None = None
    calls: list[CallView] = Field(default_factory=list)


class EngineReadingView(View):
    """What SGLang's chat route would have returned for the same ids.

    `parser`: its reasoning parser, None for a server started without one. `forced`: it takes the text to begin inside reasoning.
    `same`: nothing of it differs from what the ids say; else `sentences` say what does. `condition`: what the request must hold.
    """

    parser: str | None
    forced: bool
    reasoning: str
    content: str
    sentences: list[str]
    same: bool
    condition: str = ""


class DriftView(View):
    """The first place where the answer's text, encoded again, gives other ids (both lists are cut at 16)."""

    position: int
    ids: list[int]
    becomes: list[int]
    message: str


class SampleView(SampleRow):
    """One sample, whole (its ids are at /tokens)."""

    run_name: str
    segments: list[SegmentView]
    engine_readings: list[EngineReadingView]
    """What SGLang's parsers would have made of it; none where its family has none"""
    drift: DriftView | None
    prompt_messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    attempt_detail: "AttemptView | None"
    my_review: "MyReview | None"


class AttemptView(View):
    """One attempt's facts."""

    number: int
    state: str
    current: bool
    finish_reason: str | None
    finish_matched: Any
    prompt_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    flag_count: int
    sampling: dict[str, Any]
    backend_id: int | None
    backend_name: str | None
    backend_start: int | None
    """Which start of the backend answered: its number"""
    version: str | None
    weight_version: str | None
    cached_tokens: int | None
    latency_s: float | None
    error: str | None
    error_code: str | None
    started_at: datetime
    finished_at: datetime


class MyReview(View):
    """What I said about the current attempt; `version` is its ETag."""

    verdict: str | None
    tags: list[str]
    note: str
    version: int
    updated_at: datetime | None


class PieceView(View):
    """One token for display.

    `kind` is text, special, added, byte or unknown. `bytes` is hex. `text` is what the token adds to the decoded text; when
    several tokens make one character together, `group` is (position within the group, size of the group), the first carries
    the character and the others carry "". `start`/`end` are code-point offsets in the decoded text.
    """

    index: int
    id: int
    kind: str
    bytes: str
    text: str
    start: int
    end: int
    group: tuple[int, int] | None = None


class SampleTokens(View):
    """The exact ids; pieces on request."""

    sample_id: int
    attempt: int
    prompt_ids: list[int]
    output_ids: list[int]
    prompt_pieces: list[PieceView] | None = None
    pieces: list[PieceView] | None = None


class Neighbours(View):
    """The samples before and after this one inside a filter, and how many there are (a capped count says `exact: false`)."""

    previous: int | None
    next: int | None
    total: int
    exact: bool


class CommentView(View):
    """A remark, on a token range or on the whole."""

    id: int
    by: str
    start: int | None
    end: int | None
    body: str
    created_at: datetime


class TagView(View):
    """A tag and its number key (1…10; 10 is `0`)."""

    id: int
    name: str
    key: int | None


SampleView.model_rebuild()
