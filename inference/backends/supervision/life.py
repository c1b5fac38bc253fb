"""One life of a managed server: spawned or adopted, with everything that must be at hand to watch and to end it."""

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from db.tables import Backend, BackendStart
from db.types import now
from inference.backends.host.gpumemory import Levels, used_mib
from inference.backends.host.identity import Identity, find_leader
from inference.backends.host.process import ServerProcess
from inference.backends.launch.checks import check_interpreter, check_spec
from inference.backends.launch.command import LaunchCommand, build_command
from inference.backends.launch.ports import LOOPBACK, reserve
from inference.backends.launch.spec import LaunchSpec
from inference.backends.logs.diagnosis import Diagnosis, seen_while_alive
from inference.backends.logs.phases import ORDER, SPAWNED, PhaseTracker
from inference.backends.logs.reading import LogFollower, last_lines, redact
from inference.backends.server.client import SglangClient
from inference.backends.supervision.records import NewStart
from inference.settings import Settings

ADOPTED_TAIL_BYTES = 64 * 1024
DIAGNOSIS_LINES = 400


@dataclass(slots=True)
class Stopping:
    """An ordered end under way; times are monotonic."""

    since: float
    how: str
    aborted: bool = False
    killed: bool = False


@dataclass(slots=True)
class Life:
    """A running server and what we know of it."""

    start_id: int
    number: int
    port: int
    weight_version: str
    log: Path
    url: str
    api_key: str
    limit_s: float | None
    gpu_before: Levels | None
    """GPU memory in use before the launch; None: no GPU, or the launch was before ours"""
    process: ServerProcess
    follower: LogFollower
    tracker: PhaseTracker
    client: SglangClient
    adopted: bool = False
    recorded: bool = False
    """Whether the process stands in the database; until then it can be found by its marker alone."""
    since: float = field(default_factory=time.monotonic)
    ready_since: float | None = None
    bad_health_since: datetime | None = None
    stopping: Stopping | None = None
    problem: Diagnosis | None = None
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def ever_ready(self) -> bool:
        """Whether this start has answered a real request."""
        return self.ready_since is not None

    @property
    def key_file(self) -> Path:
        """Where the key lies while the server starts."""
        return self.log.with_suffix(".yaml")

    def read_log(self) -> None:
        """Take in what the log has new. Reads files."""
        at = now()
        for line in self.follower.read():
            self.tracker.feed(line, at)
            if not self.ever_ready and self.problem is None:
                self.problem = seen_while_alive(line)

    def log_end(self) -> list[str]:
        """The last lines, for a diagnosis: no key is in them. Reads files."""
        return [redact(line, (self.api_key,)) for line in last_lines(self.log, DIAGNOSIS_LINES)]

    def task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the steps, for as long as this life is watched."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def drop_tasks(self) -> None:
        """Cancel what runs beside, and wait for it."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Let go of it; the server runs on."""
        await self.drop_tasks()
        await self.client.aclose()
        self.process.close()

    def drop_key_file(self) -> None:
        """The server has read it: it need not lie there any longer."""
        with contextlib.suppress(OSError):
            self.key_file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """A start that passed every check and is not spawned yet."""

    new: NewStart
    command: LaunchCommand
    limit_s: float | None
    gpu_before: Levels | None = None


def plan_start(settings: Settings, backend: Backend, number: int, ports_in_use: set[int]) -> Plan:
    """Check what can be checked and lay out the files of a start. Blocks: it asks the interpreter for sglang.

    Raises:
        Invalid: the launch cannot work; the field is named.
        Unavailable: no sglang, no free port.
        OSError: the data directory cannot be written.
    """
    spec = check_spec(settings, LaunchSpec.model_validate(backend.launch or {}))
    python = check_interpreter(settings, thoroughly=True)
    folder = settings.data_dir.resolve() / "logs" / f"backend-{backend.id}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder / f"start-{number}.log"
    key_file = log.with_suffix(".yaml")
    weight_version = f"draftmill-{backend.id}-{number}-{secrets.token_hex(8)}"
    api_key = secrets.token_hex(24)
    ports = reserve(spec, ports_in_use)
    command = build_command(
        spec, python=python, ports=ports, key_config_path=key_file, weight_version=weight_version, api_key=api_key
    )
    key_file.unlink(missing_ok=True)
    with os.fdopen(os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(command.config_text)
    url = f"http://{LOOPBACK}:{ports.http}"
    gpu_before = None if spec.device == "cpu" else used_mib()
    new = NewStart(number, command.shown, log, ports.http, weight_version, url, api_key)
    return Plan(new, command, spec.startup_limit_s, gpu_before)


def spawn(plan: Plan) -> ServerProcess:
    """Start the process. Blocks for a moment.

    Raises:
        OSError: the interpreter cannot be executed.
    """
    new = plan.new
    return ServerProcess.spawn(
        plan.command.argv, plan.command.env, log=new.log, cwd=new.log.parent, marker=new.weight_version
    )


def new_life(plan: Plan, start_id: int, process: ServerProcess) -> Life:
    """The life of a process that was just spawned."""
    new = plan.new
    return Life(
        start_id=start_id,
        number=new.number,
        port=new.port,
        weight_version=new.weight_version,
        log=new.log,
        url=new.url,
        api_key=new.api_key,
        limit_s=plan.limit_s,
        gpu_before=plan.gpu_before,
        process=process,
        follower=LogFollower(new.log),
        tracker=PhaseTracker(now()),
        client=SglangClient(new.url, new.api_key, max_connections=8),
    )


def find_process(start: BackendStart) -> ServerProcess | None:
    """The living process of a start that an earlier supervisor left, proven to be that one. Blocks for a moment."""
    marker = start.weight_version or ""
    if start.pid is not None and start.pid_started is not None:
        return ServerProcess.adopt(Identity(start.pid, start.pid_started), marker)
    leader = find_leader(marker) if marker else None  # we died between the spawn and writing the pid down
    return ServerProcess.adopt(leader, marker) if leader is not None else None


def remains(start: BackendStart) -> ServerProcess:
    """A handle on what may be left of a start whose main process is gone."""
    return ServerProcess.gone(Identity(start.pid or 0, start.pid_started or 0.0), start.weight_version or "")


def adopted_life(backend: Backend, start: BackendStart, process: ServerProcess) -> Life:
    """The life of a server that an earlier supervisor started."""
    log = Path(start.log_path or "/nonexistent/start.log")
    ready = start.ready_at is not None
    phase = str((backend.phase or {}).get("name", SPAWNED))
    launch = LaunchSpec.model_validate(backend.launch or {})
    life = Life(
        start_id=start.id or 0,
        number=start.number,
        port=start.port or 0,
        weight_version=start.weight_version or "",
        log=log,
        url=backend.url or f"http://{LOOPBACK}:{start.port}",
        api_key=backend.api_key or "",
        limit_s=launch.startup_limit_s,
        gpu_before=None,
        process=process,
        follower=LogFollower(log, ADOPTED_TAIL_BYTES if ready else None),
        tracker=PhaseTracker(now(), phase if ready and phase in ORDER else SPAWNED),
        client=SglangClient(backend.url or "", backend.api_key, max_connections=8),
        adopted=True,
        ready_since=time.monotonic() if ready else None,
    )
    if backend.observed_state == "unresponsive":
        life.bad_health_since = backend.observed_at
    life.since = time.monotonic() - max(0.0, (now() - start.started_at).total_seconds())
    return life
