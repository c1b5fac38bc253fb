"""What an earlier supervisor left: the process of a start found again and proven, or known to be gone, or out of sight.

A pid means something only on its machine and in its boot. Identity is pid and start time with the marker that the tree carries
in its environment; a pid alone proves nothing.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from db.tables import Backend, BackendStart
from db.types import now
from inference.backends.host.identity import Identity, find_leader, machine
from inference.backends.host.process import ServerProcess
from inference.backends.launch.ports import LOOPBACK
from inference.backends.launch.stored import as_started
from inference.backends.logs.following import LogFollower
from inference.backends.logs.phases import ORDER, SPAWNED, PhaseTracker
from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import Expected
from inference.backends.supervision.launching import CONNECTIONS
from inference.backends.supervision.life import Life
from inference.backends.supervision.pulse import Pulse

ADOPTED_TAIL_BYTES = 64 * 1024

Place = Literal["here", "before_boot", "elsewhere"]


def place_of(start: BackendStart) -> Place:
    """Where a start's process was: on this machine in this boot, in an earlier boot of it, or on another machine.

    A container is a machine here, and its restart a boot: one of another host name may live beside us, unseen. What an
    earlier version wrote down without its machine was on this one.
    """
    here = machine()
    if start.boot_id is None or start.boot_id == here.boot_id:
        return "here"
    return "before_boot" if start.host == here.host else "elsewhere"


def adopted_life(backend: Backend, start: BackendStart) -> Life:
    """The life of a server that an earlier supervisor started, found again or ended since, with what its log says so far.

    Blocks: it looks at processes and reads files.
    """
    process = _find_process(start)
    log = Path(start.log_path or "/nonexistent/start.log")
    ready = start.ready_at is not None
    phase = str((backend.phase or {}).get("name", SPAWNED))
    launch = as_started(backend.launch)
    url = backend.url or f"http://{LOOPBACK}:{start.port}"
    model = _model_of(start.command) or launch.model_path
    life = Life(
        start_id=start.id or 0,
        number=start.number,
        port=start.port or 0,
        expected=Expected(start.weight_version or "", model, serves=not launch.follower),
        log=log,
        url=url,
        api_key=backend.api_key or "",
        limit_s=launch.startup_limit_s,
        drain_limit_s=launch.drain_limit_s,
        gpu_before=start.gpu_before,
        process=process or _remains(start),
        follower=LogFollower(log, ADOPTED_TAIL_BYTES if ready else None),
        tracker=PhaseTracker(
            start.started_at,
            phase if ready and phase in ORDER else SPAWNED,
            {str(item["name"]): datetime.fromisoformat(str(item["at"])) for item in start.phases},
        ),
        client=SglangClient(url, backend.api_key, max_connections=CONNECTIONS),
        while_away=process is None,
        rebooted=place_of(start) == "before_boot",
        ready_since=time.monotonic() if ready else None,
    )
    life.started_at = start.started_at
    life.since = time.monotonic() - max(0.0, (now() - start.started_at).total_seconds())
    life.pulse = _pulse(backend, serves=not launch.follower)
    life.read_log(_written_at(log))
    return life


def _find_process(start: BackendStart) -> ServerProcess | None:
    """The living process of a start that an earlier supervisor left, proven to be that one. Blocks for a moment."""
    if place_of(start) != "here":
        return None
    marker = start.weight_version or ""
    if start.pid is not None and start.pid_started is not None:
        return ServerProcess.adopt(Identity(start.pid, start.pid_started), marker)
    leader = find_leader(marker) if marker else None  # we died between the spawn and writing the pid down
    return ServerProcess.adopt(leader, marker) if leader is not None else None


def _remains(start: BackendStart) -> ServerProcess:
    """A handle on what may be left of a start whose main process is gone."""
    return ServerProcess.gone(Identity(start.pid or 0, start.pid_started or 0.0), start.weight_version or "")


def _pulse(backend: Backend, *, serves: bool) -> Pulse:
    """What an earlier supervisor knew of its being alive: the doubt goes on, but is not older than we can tell."""
    pulse = Pulse(_last_sign(backend.evidence), serves=serves)
    if backend.observed_state == "unresponsive":
        doubt = pulse.generation if serves else pulse.health
        doubt.add(backend.observed_at or now(), "it gave none before Draftmill was restarted.", surely=True)
    return pulse


def _last_sign(evidence: list[Mapping[str, object]] | list[dict[str, object]]) -> datetime:
    for item in evidence:
        if item.get("source") == "generation" and item.get("ok"):
            return datetime.fromisoformat(str(item["at"]))
    return now()


def _written_at(log: Path) -> datetime:
    """When the log was last written: its lines are as old as that, not as young as our reading of them."""
    try:
        return datetime.fromtimestamp(log.stat().st_mtime, UTC)
    except OSError:
        return now()


def _model_of(command: list[str]) -> str | None:
    """What the start was launched with; the backend's launch may have been changed since."""
    try:
        return command[command.index("--model-path") + 1]
    except (ValueError, IndexError):
        return None
