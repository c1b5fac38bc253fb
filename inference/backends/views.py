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
    left_s: float | None = None
    """Seconds until it is done as of `counted_at`, as the log's own bar or its pace so far says; None where neither does"""
    counted_at: datetime | None = None
    """When the log last counted"""


class EvidenceView(View):
    """One signal and what it said: source is process, log, health, generation, tokens, figures or probe."""

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


class PassedPhaseView(View):
    """A stage of a start-up that was entered, and when."""

    name: str
    at: datetime
    done: int | None = None
    total: int | None = None


class FiguresView(View):
    """Live figures of a server; None where the source does not tell. `kv_usage` and `cache_hit` are shares, 0 to 1."""

    at: datetime
    source: str
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    tokens_per_s: float | None = None
    cache_hit: float | None = None
    stale_s: float | None = None
    """How old they were when they were read; None where the source does not tell"""


class BreakerView(View):
    """Whether runs send to it: `closed` (yes), `open` (not until `until`), `half_open` (one request on trial)."""

    state: str = "closed"
    failures: int = 0
    since: datetime | None = None
    until: datetime | None = None
    error: str = ""


class BackendView(View):
    """A backend as it stands."""

    id: int
    name: str
    kind: str
    url: str | None
    desired_state: str
    observed_state: str
    observed_at: datetime | None
    """When it was last seen to be so, give or take some seconds while nothing changes; None where nobody has looked yet"""
    phase: PhaseView | None
    message: str
    evidence: list[EvidenceView]
    error: BackendErrorView | None
    crashes: int
    """Crashes in a row; counted anew once it was ready for a while"""
    retry_at: datetime | None
    """When it is started again after a crash"""
    deadline_at: datetime | None
    """When the wait that is going on (a drain, a start-up limit) ends by itself"""
    pid: int | None
    port: int | None
    nccl_port: int | None
    host: str | None
    version: str | None
    model: str | None
    launch: dict[str, Any] | None
    command: list[str] | None
    environment: dict[str, str]
    """What the command's environment has besides Draftmill's own, secrets masked"""
    phases: list[PassedPhaseView]
    figures: FiguresView | None
    breaker: BreakerView
    start_number: int | None
    started_at: datetime | None
    ready_at: datetime | None
    probe: dict[str, Any] | None
    server_info: dict[str, Any] | None
    allowed: list[str]
    """The actions that are legal now: start, stop, restart, kill, probe, forget, delete"""
    created_at: datetime
    updated_at: datetime


class EventView(View):
    """One line of history, of a backend or a run."""

    id: int
    at: datetime
    kind: str
    message: str
    detail: dict[str, Any] = Field(default_factory=dict)
