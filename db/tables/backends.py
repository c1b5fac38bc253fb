"""SGLang servers: what we want of them, what we see, and each time one was started."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, Text, false, text
from sqlmodel import Field, SQLModel

from db.types import Big, Json, UtcTime, now


class Backend(SQLModel, table=True):
    """One server, managed (we own the process) or attached (a URL somebody else runs)."""

    __tablename__ = "backends"
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=80)
    kind: str = Field(max_length=16)
    """managed or attached"""
    url: str | None = Field(default=None, max_length=500)
    api_key: str | None = Field(default=None, max_length=500)
    """Secret. For a managed backend a new one is made at each start."""
    launch: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """A `LaunchSpec` as JSON; managed only."""

    desired_state: str = Field(default="stopped", max_length=16)
    """running or stopped; for an attached one: watched or not"""
    restart_requested: bool = False
    probe_requested: bool = False
    kill_requested: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Do not wait for requests in flight: end it now"""
    forget_requested: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """A person says that the server we cannot see (`unknown`) is gone"""

    observed_state: str = Field(default="stopped", max_length=16, index=True)
    message: str = Field(default="", sa_type=Text)
    phase: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """{name, done, total, since}"""
    evidence: list[dict[str, Any]] = Field(default_factory=list, sa_type=Json)
    """[{source, at, ok, text}]: one per signal (process, log, health, generation, probe)"""
    error: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """{summary, cure, lines[]} of the last failure, until the next ready"""
    observed_at: datetime | None = Field(default=None, sa_type=UtcTime)

    start_id: int | None = Field(default=None, sa_type=Big)
    """The current or last `BackendStart`."""
    crashes: int = 0
    retry_at: datetime | None = Field(default=None, sa_type=UtcTime)
    deadline_at: datetime | None = Field(default=None, sa_type=UtcTime)
    """When the wait that is going on ends by itself: a drain, a start-up limit"""
    version: str | None = Field(default=None, max_length=60)
    model: str | None = Field(default=None, max_length=500)
    server_info: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """What runs need of /model_info and /server_info, without secrets."""
    probe: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """The last fidelity probe's report."""
    figures: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """The last live figures, as a `BackendFigure` has them"""
    breaker: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """{state, failures, since, until, error}: whether runs send to it; None: closed and never opened"""

    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    updated_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class BackendStart(SQLModel, table=True):
    """One life of a server: samples name the start they came from."""

    __tablename__ = "backend_starts"
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    backend_id: int = Field(foreign_key="backends.id", index=True, ondelete="CASCADE")
    number: int
    """1, 2, 3 … within the backend"""
    command: list[str] = Field(default_factory=list, sa_type=Json)
    """argv, without secrets"""
    log_path: str | None = Field(default=None, max_length=1000)
    port: int | None = None
    nccl_port: int | None = None
    environment: dict[str, str] = Field(
        default_factory=dict, sa_type=Json, sa_column_kwargs={"server_default": text("'{}'")}
    )
    """What the command's environment has besides ours, without secrets"""
    host: str | None = Field(default=None, max_length=255)
    boot_id: str | None = Field(default=None, max_length=64)
    """The machine and its boot: a pid means something only there"""
    pid: int | None = None
    pid_started: float | None = None
    """The process's start time (psutil's `create_time`): pid and this together are an identity, a pid alone is not."""
    weight_version: str | None = Field(default=None, max_length=120)
    version: str | None = Field(default=None, max_length=60)
    """SGLang's, as it said when this start was ready: samples keep naming it after the server was upgraded"""
    started_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    ready_at: datetime | None = Field(default=None, sa_type=UtcTime)
    stopping_at: datetime | None = Field(default=None, sa_type=UtcTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcTime)
    exit_code: int | None = None
    ending: str | None = Field(default=None, sa_type=Text)
    error: dict[str, Any] | None = Field(default=None, sa_type=Json)
    """The diagnosis, where it did not end as asked"""
    phases: list[dict[str, Any]] = Field(
        default_factory=list, sa_type=Json, sa_column_kwargs={"server_default": text("'[]'")}
    )
    """[{name, at, done, total}]: each stage of its start-up, as it was entered"""
    gpu_before: dict[str, int] | None = Field(default=None, sa_type=Json)
    """{GPU uuid: MiB in use before the launch}; None: no GPU, or nobody could tell"""


class BackendEvent(SQLModel, table=True):
    """History of a backend, in words."""

    __tablename__ = "backend_events"
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    backend_id: int = Field(foreign_key="backends.id", index=True, ondelete="CASCADE")
    start_id: int | None = Field(default=None, sa_type=Big)
    at: datetime = Field(default_factory=now, sa_type=UtcTime)
    kind: str = Field(max_length=40)
    message: str = Field(default="", sa_type=Text)
    detail: dict[str, Any] = Field(default_factory=dict, sa_type=Json)


class BackendPort(SQLModel, table=True):
    """A port that a start has taken, from before its process exists until that is proven gone."""

    __tablename__ = "backend_ports"
    port: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    start_id: int = Field(foreign_key="backend_starts.id", index=True, ondelete="CASCADE", sa_type=Big)
    purpose: str = Field(max_length=20)
    """http, nccl, or inner (between ranks)"""


class BackendFigure(SQLModel, table=True):
    """One reading of a server's live figures; kept for hours, not for ever. None: that source does not tell."""

    __tablename__ = "backend_figures"
    __table_args__ = (Index("ix_backend_figures_backend_at", "backend_id", "at"),)
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    backend_id: int = Field(foreign_key="backends.id", ondelete="CASCADE")
    at: datetime = Field(default_factory=now, sa_type=UtcTime)
    source: str = Field(max_length=10)
    """loads, metrics or log"""
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    """Share of the KV cache in use, 0 to 1"""
    tokens_per_s: float | None = None
    cache_hit: float | None = None
    """Share of prompt tokens found in the prefix cache, 0 to 1"""


class Leftover(SQLModel, table=True):
    """A process tree that carries a marker of ours and belongs to no start that we know to run; kept a while once cleaned."""

    __tablename__ = "leftovers"
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    marker: str = Field(max_length=120, index=True)
    pid: int
    """Its main process, or the oldest that is left; with `pid_started` an identity"""
    pid_started: float
    name: str = Field(max_length=200)
    processes: int = 1
    memory_mib: int | None = None
    """Resident memory of all its processes"""
    gpu_mib: int | None = None
    """GPU memory of all its processes; None: no GPU, or nobody tells"""
    found_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    clean_requested: bool = False
    cleaned_at: datetime | None = Field(default=None, sa_type=UtcTime)
    message: str = Field(default="", sa_type=Text)
