"""How far a start-up is, read from SGLang's log: stable fragments, not whole lines.

The log is one signal of several: a line here never makes a server ready. SGLang prints that it is "fired up and ready to
roll" also when its warm-up spoke to another server on its port.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from inference.backends.logs.batchlines import is_health_check

SPAWNED = "spawned"
INITIALISING = "initialising"
LOADING = "loading weights"
MEMORY = "memory pool"
GRAPHS = "graphs"
WARMING = "warm-up"
FIRED = "fired up"

ORDER = (SPAWNED, INITIALISING, LOADING, MEMORY, GRAPHS, WARMING, FIRED)
STATE_OF = {
    SPAWNED: "starting",
    INITIALISING: "starting",
    LOADING: "loading",
    MEMORY: "loading",
    GRAPHS: "loading",
    WARMING: "warming_up",
    FIRED: "warming_up",
}
"""Phase → observed state, before the server is proven ready."""

_ENTER = (
    ("Init parallel begin", INITIALISING),
    ("Init torch distributed begin", INITIALISING),
    ("Load weight begin", LOADING),
    ("Load weight end", MEMORY),
    ("KV Cache is allocated", MEMORY),
    ("graph begin", GRAPHS),
    ("max_total_num_tokens=", WARMING),
    ("Uvicorn running on", WARMING),
    ("The server is fired up and ready to roll", FIRED),
)
_BAR = re.compile(
    r"^(?P<label>[^|\d][^|]*?):\s+\d+%.*?\|\s*(?P<done>\d+)/(?P<total>\d+)\s*\[[\d:]+<(?P<left>[\d:]+|\?)"
)
_LOADING_BAR = re.compile(r"load|shard|safetensors", re.IGNORECASE)
_GRAPH_BAR = re.compile(r"^Capturing", re.IGNORECASE)
_BATCH = re.compile(r"\] (?:Prefill|Decode) batch[ ,\[]|^(?:Prefill|Decode) batch[ ,\[]")
_PART_DIED = re.compile(
    r"Subprocess \S+ \(pid=\d+\) crashed with exit code|Scheduler hit an exception|SIGQUIT received"
    r"|Received sigquit from a child process"
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A stage; `done` of `total` where the log counts; `since` when it was entered, as we saw it."""

    name: str
    since: datetime
    done: int | None = None
    total: int | None = None
    left_s: float | None = None
    """Seconds to go when the log last counted: by its own bar, else by the pace so far"""
    counted_at: datetime | None = None

    def to_json(self) -> dict[str, object]:
        """For the backend's row."""
        return {
            "name": self.name,
            "done": self.done,
            "total": self.total,
            "since": self.since.isoformat(),
            "left_s": self.left_s,
            "counted_at": self.counted_at.isoformat() if self.counted_at is not None else None,
        }

    def __str__(self) -> str:
        return self.name if self.total is None else f"{self.name} {self.done}/{self.total}"


class PhaseTracker:
    """Reads log lines as they come; phases only move forward, but a second weight load (a draft model) counts anew.

    Args:
        at: when the server was started, or the phase entered.
        name: the phase it is in.
        entered: phase → when it was entered, where an earlier reader of the same log wrote that down.
    """

    def __init__(self, at: datetime, name: str = SPAWNED, entered: Mapping[str, datetime] | None = None) -> None:
        self._entered = entered or {}
        self.phase = Phase(name, self._entered.get(name, at))
        self._passed: list[Phase] = []
        self._counted_at = at
        self._drawn = ""
        self.part_died: str | None = None
        """The line that says that a part of the server died: it is about to shut itself down."""
        self.last_line_at = at
        self.last_tokens_at: datetime | None = None

    def history(self) -> list[dict[str, object]]:
        """The stages so far, each with the time it was entered and its last count, for the start's row."""
        return [
            {"name": phase.name, "at": phase.since.isoformat(), "done": phase.done, "total": phase.total}
            for phase in (*self._passed, self.phase)
        ]

    def feed(self, line: str, at: datetime) -> None:
        """Take one line that was read at `at`."""
        self.last_line_at = at
        if " batch" in line and _BATCH.search(line):
            if not is_health_check(line):  # a health check's own token is no sign of work
                self.last_tokens_at = at
            return
        if "%" in line and (bar := _BAR.match(line)) is not None:
            self._count(bar, at)
            return
        if self.part_died is None and _PART_DIED.search(line):
            self.part_died = line[:300]
        for fragment, name in () if self.phase.name == FIRED else _ENTER:
            if fragment in line:
                self._enter(name, at)

    def look(self, drawn: str, at: datetime) -> None:
        """Take the bar at the log's end, which is drawn and not finished: tqdm ends a state only where it draws the next one.

        One that is written by half is left for the next look.
        """
        if drawn == self._drawn or not drawn.rstrip().endswith("]"):
            return
        self._drawn = drawn
        if "%" in drawn and (bar := _BAR.match(drawn)) is not None:
            self.last_line_at = at
            self._count(bar, at)

    def _enter(self, name: str, at: datetime) -> None:
        if ORDER.index(name) > ORDER.index(self.phase.name):
            self._passed.append(self.phase)
            self.phase = Phase(name, self._entered.get(name, at))
            self._counted_at = at

    def _count(self, bar: "re.Match[str]", at: datetime) -> None:
        label = bar.group("label")
        name = GRAPHS if _GRAPH_BAR.search(label) else LOADING if _LOADING_BAR.search(label) else None
        if name is None or ORDER.index(name) < ORDER.index(self.phase.name):
            return
        self._enter(name, at)
        done, total = int(bar.group("done")), int(bar.group("total"))
        if (done, total) == (self.phase.done, self.phase.total):  # seen while it was drawn
            return
        if done == 0 or self.phase.total not in {None, total}:
            self._counted_at = at
        left = _seconds(bar.group("left"))
        if left is None and done:
            left = (at - self._counted_at).total_seconds() / done * (total - done)
        self.phase = Phase(name, self.phase.since, done, total, left, at)


def _seconds(clock: str) -> float | None:
    """`01:05`, `1:00:05` in seconds; None for tqdm's `?`."""
    if clock == "?":
        return None
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part or 0)
    return float(seconds)
