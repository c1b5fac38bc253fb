"""Runs, the samples they want, the attempts that were made, and what checks found."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from db.types import Big, Json, UtcTime, now

UNCHECKED = "state = 'done' AND text_checked <> attempt"
"""Which samples the checks behind a run have yet to look at: a partial index knows them, found by these very words"""


class Run(SQLModel, table=True):
    """Prompt set × tokenizer and format × rendering × sampling × backends × repeats, frozen at launch."""

    __tablename__ = "runs"
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(max_length=200)
    prompt_set_id: int = Field(foreign_key="prompt_sets.id", index=True)
    state: str = Field(default="queued", max_length=32, index=True)
    reason_kind: str | None = Field(default=None, max_length=40)
    """Why it is where it is: person, guard, no_backend, error"""
    reason: str = Field(default="", sa_type=Text)
    settings: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    """`RunSettings` as JSON: all resolved, nothing left to a default nobody saw."""
    fingerprint: str = Field(default="", max_length=64)
    planned: bool = False
    """True once every wanted sample has a row"""
    generation: int = 0
    """Grows at each regenerate or retry; the guard and the runner start afresh from it"""
    overrides: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    """{generation: {sampling, backend_ids}}: what a regenerate changed for the samples that carry its generation"""
    progress: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    """{samples_per_s, tokens_per_s, eta_s, in_flight, at}: the worker's last word"""
    token_format: str | None = Field(default=None, max_length=60)
    """The format its ids are read by since a rederive named another one; None: that of the settings"""
    collection_due: int = 0
    """Grows when answers come or go; set to 0 once the checks over all of its samples have seen them as they are"""
    check_trouble: str = Field(default="", sa_type=Text)
    """Why the checks behind the run cannot be made, in words"""
    created_by: int | None = Field(default=None, foreign_key="users.id", ondelete="SET NULL")
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcTime)


class RunBackend(SQLModel, table=True):
    """A backend that a run may use."""

    __tablename__ = "run_backends"
    run_id: int = Field(primary_key=True, foreign_key="runs.id", ondelete="CASCADE")
    backend_id: int = Field(primary_key=True, foreign_key="backends.id")


class RunCategory(SQLModel, table=True):
    """Counters, kept by the transactions that change samples; their sum over categories is the run's."""

    __tablename__ = "run_categories"
    run_id: int = Field(primary_key=True, foreign_key="runs.id", ondelete="CASCADE")
    category: str = Field(primary_key=True, max_length=120)
    pending: int = 0
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    flagged: int = 0
    checked: int = 0
    """Done samples whose text was looked at"""
    prompt_tokens: int = Field(default=0, sa_type=Big)
    completion_tokens: int = Field(default=0, sa_type=Big)


class RunEvent(SQLModel, table=True):
    """History of a run, in words."""

    __tablename__ = "run_events"
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    run_id: int = Field(foreign_key="runs.id", index=True, ondelete="CASCADE")
    at: datetime = Field(default_factory=now, sa_type=UtcTime)
    kind: str = Field(max_length=40)
    message: str = Field(default="", sa_type=Text)
    detail: dict[str, Any] = Field(default_factory=dict, sa_type=Json)


class Sample(SQLModel, table=True):
    """One answer wanted. Narrow: all that lists show and filter by, nothing that grows with the answer."""

    __tablename__ = "samples"
    __table_args__ = (
        UniqueConstraint("run_id", "prompt_id", "turn", "repeat"),
        Index("ix_samples_prompt_id", "prompt_id"),  # without it, deleting a prompt set reads all samples once a prompt
        Index("ix_samples_run_id", "run_id", "id"),
        Index("ix_samples_run_updated", "run_id", "updated_at", "id"),
        Index("ix_samples_run_state", "run_id", "state", "id"),
        Index("ix_samples_run_category", "run_id", "category", "id"),
        Index("ix_samples_run_finish", "run_id", "finish_reason", "id"),
        Index("ix_samples_run_len", "run_id", "completion_tokens", "id"),
        Index("ix_samples_run_source", "run_id", "source_id", "id"),
        Index(
            "ix_samples_unchecked",
            "run_id",
            "state",
            "id",
            sqlite_where=text(UNCHECKED),
            postgresql_where=text(UNCHECKED),
        ),
    )
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    run_id: int = Field(foreign_key="runs.id", ondelete="CASCADE")
    prompt_id: int = Field(foreign_key="prompts.id", sa_type=Big)
    turn: int = 0
    """Which assistant turn of the conversation; 0 = the answer to its end"""
    repeat: int = 0
    source_id: str = Field(max_length=300)
    category: str = Field(default="", max_length=120)
    prompt_preview: str = Field(default="", max_length=240)
    state: str = Field(default="pending", max_length=16)
    """pending, in_flight, done, failed, skipped"""
    lease: int = Field(default=0, sa_type=Big)
    """Grows each time the sample is taken up or put back: a result that carries an older one is refused."""
    attempt: int = 0
    """Number of the current attempt; 0 = none yet"""
    attempts: int = 0
    """How many attempts were recorded, failed ones included; the next one gets the number after it"""
    generation: int = 0
    """The run's generation when this sample was last regenerated; names its entry in `Run.overrides`"""
    finish_reason: str | None = Field(default=None, max_length=16)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    kinds: int = 0
    """Bit set of segment kinds, `db.kinds`"""
    flag_count: int = 0
    """Flags of severity warning or error; notes (info) are listed and not counted"""
    text_checked: int = 0
    """Number of the attempt whose text was looked at last; 0 = none yet"""
    answer_hash: int | None = Field(default=None, sa_type=Big)
    """Of the answer's content and calls, to find identical ones; None where it has none, or was not looked at"""
    preview: str = Field(default="", max_length=240)
    """The answer's beginning"""
    error_code: str | None = Field(default=None, max_length=60)
    error: str | None = Field(default=None, sa_type=Text)
    backend_id: int | None = None
    updated_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class Attempt(SQLModel, table=True):
    """One try at a sample; its ids are in the id store under (run, sample, number)."""

    __tablename__ = "attempts"
    sample_id: int = Field(primary_key=True, foreign_key="samples.id", ondelete="CASCADE", sa_type=Big)
    number: int = Field(primary_key=True)
    run_id: int = Field(foreign_key="runs.id", index=True, ondelete="CASCADE")
    state: str = Field(max_length=16)
    """done or failed"""
    finish_reason: str | None = Field(default=None, max_length=16)
    finish_matched: str | None = Field(default=None, max_length=200)
    """The stop id or string, as JSON"""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    kinds: int = 0
    flag_count: int = 0
    preview: str = Field(default="", max_length=240)
    segments: list[Any] = Field(default_factory=list, sa_type=Json)
    """[[kind, start, end, extra?], …] as `inference.tokens.segmentation.segments` made them"""
    sampling: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    """What was sent for this attempt, when it differs from the run's settings (seed, lowered budget, regenerate's changes)"""
    backend_id: int | None = None
    backend_start_id: int | None = Field(default=None, sa_type=Big)
    rid: str | None = Field(default=None, max_length=64)
    weight_version: str | None = Field(default=None, max_length=120)
    cached_tokens: int | None = None
    latency_s: float | None = None
    error_code: str | None = Field(default=None, max_length=60)
    error: str | None = Field(default=None, sa_type=Text)
    started_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    finished_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class SampleFlag(SQLModel, table=True):
    """What a check found in a sample's *current* attempt; older attempts' flags are made again from their ids on demand."""

    __tablename__ = "sample_flags"
    __table_args__ = (Index("ix_sample_flags_run_code", "run_id", "code", "sample_id"),)
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    run_id: int = Field(foreign_key="runs.id", ondelete="CASCADE")
    sample_id: int = Field(foreign_key="samples.id", index=True, ondelete="CASCADE", sa_type=Big)
    code: str = Field(max_length=60)
    severity: str = Field(max_length=16)
    start: int | None = None
    end: int | None = None
    message: str = Field(default="", sa_type=Text)
