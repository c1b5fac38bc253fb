"""One life of a managed server: spawned or adopted, with everything that must be at hand to watch and to end it."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from db.types import now
from inference.backends.host.gpumemory import Levels
from inference.backends.host.litter import note_shared
from inference.backends.host.process import ServerProcess
from inference.backends.logs.batchlines import BatchLines
from inference.backends.logs.diagnosis import Diagnosis, seen_while_alive
from inference.backends.logs.following import LogFollower
from inference.backends.logs.phases import PhaseTracker
from inference.backends.logs.reading import last_lines
from inference.backends.logs.redaction import redact
from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import Expected
from inference.backends.supervision.pulse import Pulse

DIAGNOSIS_LINES = 2_000
"""Eight ranks that end with a traceback each write hundreds."""

OURS = frozenset({"startup_limit", "port_in_use"})
"""Problems over which we end a server ourselves: they, not the SIGKILL, are the reason."""


@dataclass(slots=True)
class Stopping:
    """An ordered end under way; times are monotonic but for those that people see."""

    since: float
    how: str
    drain_until: float | None = None
    """Requests in flight may finish until then; None: it is past draining"""
    kill_at: float | None = None
    """SIGKILL is due then; None: no SIGTERM was sent yet"""
    deadline_at: datetime | None = None
    quiet: int = 0
    """Looks in a row that found nothing in flight"""
    next_look: float = 0.0
    killed: bool = False
    noted: bool = False
    """Whether its beginning stands in the database"""


@dataclass(slots=True)
class Life:
    """A running server and what we know of it."""

    start_id: int
    number: int
    port: int
    expected: Expected
    log: Path
    url: str
    api_key: str
    limit_s: float | None
    drain_limit_s: float
    gpu_before: Levels | None
    """GPU memory in use before the launch; None: no GPU, or nobody could tell"""
    process: ServerProcess
    follower: LogFollower
    tracker: PhaseTracker
    client: SglangClient
    batch_lines: BatchLines = field(default_factory=BatchLines)
    while_away: bool = False
    """It ended while no supervisor was there."""
    rebooted: bool = False
    """It was of an earlier boot of this machine."""
    recorded: bool = False
    """Whether the process stands in the database; until then it can be found by its marker alone."""
    since: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=now)
    ready_since: float | None = None
    pulse: Pulse = field(default_factory=lambda: Pulse(now()))
    stopping: Stopping | None = None
    problem: Diagnosis | None = None
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    log_size: int = -1

    @property
    def ever_ready(self) -> bool:
        """Whether this start has answered a real request."""
        return self.ready_since is not None

    @property
    def limit_at(self) -> datetime | None:
        """When the user's limit for the start-up is over."""
        return None if self.limit_s is None else self.started_at + timedelta(seconds=self.limit_s)

    @property
    def key_file(self) -> Path:
        """Where the key lies while the server starts."""
        return self.log.with_suffix(".yaml")

    def log_grew(self) -> bool:
        """Whether the log has another size than at the last call, or more than was taken in: a look that costs no more."""
        try:
            size = self.log.stat().st_size
        except OSError:
            size = 0
        grew, self.log_size = size != self.log_size or size > self.follower.offset, size
        return grew

    def read_log(self, at: datetime | None = None) -> None:
        """Take in what the log has new, as of `at`. Reads files."""
        at = at or now()
        for line in self.follower.read():
            stage = self.tracker.phase.name
            self.tracker.feed(line, at)
            self.batch_lines.feed(line, at)
            if not self.ever_ready:
                self._look_for_problem(line, got_on=self.tracker.phase.name != stage)
        self.tracker.look(self.follower.drawn, at)
        if self.tracker.last_tokens_at is not None:
            self.pulse.tokens(self.tracker.last_tokens_at)
        if self.tracker.part_died is not None:
            self.pulse.died = redact(self.tracker.part_died, (self.api_key,))

    def _look_for_problem(self, line: str, *, got_on: bool) -> None:
        """The first is told until the start-up gets on (a download that was tried again, say); one that cannot pass, for good."""
        if got_on and self.problem is not None and self.problem.code not in OURS:
            self.problem = None
        found = seen_while_alive(line)
        if found is not None and (self.problem is None or found.code in OURS):
            self.problem = replace(found, lines=[redact(shown, (self.api_key,)) for shown in found.lines])

    def remember(self) -> None:
        """Note who belongs to it, and what of theirs an abrupt end would leave behind. Reads /proc."""
        self.process.remember()
        with contextlib.suppress(OSError):  # a full disk holds up no end of a server
            note_shared(self.process.marker, self.process.known_pids)

    def log_end(self) -> list[str]:
        """The last lines, for a diagnosis: no key is in them. Reads files."""
        return last_lines(self.log, DIAGNOSIS_LINES, (self.api_key,))

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
