"""What people and scripts see of a backend. Secrets are masked before they get here."""

from datetime import datetime
from typing import Any

from pydantic import Field

from inference.model import View


class PhaseView(View):
    """Where a start-up is: `done` of `total` (shards, graph sizes) where the log counts; `since` when it entered."""

    name: str
    done: int | None = None
    total: int | None = None
    since: datetime | None = None


class EvidenceView(View):
    """One signal and what it said: source is process, log, health, generation or probe."""

    source: str
    at: datetime
    ok: bool | None
    text: str


class BackendErrorView(View):
    """The last failure: what happened, what to change, and the log lines that say it."""

    code: str = ""
    """Which known failure it is (`inference.backends.logs.failures`); empty where it is none of them"""
    summary: str
    cure: str = ""
    lines: list[str] = Field(default_factory=list)


class BackendView(View):
    """A backend as it stands."""

    id: int
    name: str
    kind: str
    url: str | None
    desired_state: str
    observed_state: str
    phase: PhaseView | None
    message: str
    evidence: list[EvidenceView]
    error: BackendErrorView | None
    pid: int | None
    port: int | None
    version: str | None
    model: str | None
    launch: dict[str, Any] | None
    command: list[str] | None
    start_number: int | None
    started_at: datetime | None
    ready_at: datetime | None
    probe: dict[str, Any] | None
    server_info: dict[str, Any] | None
    allowed: list[str]
    """The actions that are legal now: start, stop, restart, probe, delete"""
    created_at: datetime
    updated_at: datetime


class EventView(View):
    """One line of history, of a backend or a run."""

    id: int
    at: datetime
    kind: str
    message: str
    detail: dict[str, Any] = Field(default_factory=dict)
