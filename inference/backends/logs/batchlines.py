"""Live figures from a server's log: its `Prefill batch` and `Decode batch` lines, for a server that tells them nowhere else.

SGLang writes one such line a prefill and one every 40 decode steps, for each data-parallel rank, as `key: value` pairs
(srt/managers/scheduler_components/metrics_reporter.py). An idle server writes nothing, so silence after a while means 0.
"""

import re
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from db.types import now
from inference.backends.server.figures import Rank, Reading, gathered

QUIET_S = 30.0
"""Silence after which a rank counts as idle: SGLang too forgets its own throughput after so long without a decode line."""

WINDOW = timedelta(seconds=60)
"""Prefills of so long make up the cache hit rate; one of them alone says nothing."""

_LINE = re.compile(
    r"^(?:\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<prefix>[^\]]*)\] )?(?P<kind>Prefill|Decode) batch(?: \[\d+\])?, (?P<rest>.*)$"
)
_RANK = re.compile(r"\b(DP|PP|ATTN_CP)(\d+)")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")
_HEALTH = re.compile(r"#new-seq: 1, #new-token: 1, #cached-token: 0\b")
_USAGES = ("token usage", "full token usage", "swa token usage")


def is_health_check(line: str) -> bool:
    """Whether a line is the one-token prefill of a health check: its prompt is a single id, of which none can be cached."""
    return "Prefill batch" in line and _HEALTH.search(line) is not None


@dataclass(slots=True)
class _Rank:
    """What one data-parallel rank said last."""

    at: datetime
    running: float | None = None
    queued: float | None = None
    kv_usage: float | None = None
    tokens_per_s: float | None = None
    decoded_at: datetime | None = None
    prefills: deque[tuple[datetime, float, float]] = field(default_factory=deque)
    """(when, tokens computed, tokens found in the prefix cache)"""


class BatchLines:
    """Reads log lines as they come; cheap for lines of any other kind."""

    def __init__(self) -> None:
        self._ranks: dict[str, _Rank] = {}

    def feed(self, line: str, at: datetime) -> None:
        """Take one line that was read at `at`. A line's own time counts where it is earlier: a log is also read afterwards."""
        if " batch" not in line or (found := _LINE.match(line)) is None or is_health_check(line):
            return
        labels = dict(_RANK.findall(found["prefix"] or ""))
        if int(labels.get("PP", 0)) or int(labels.get("ATTN_CP", 0)):
            return  # the same requests, at a later stage
        values = _pairs(found["rest"])
        at = min(at, _written(found["time"], at))
        rank = self._ranks.setdefault(labels.get("DP", ""), _Rank(at))
        rank.at = at
        rank.queued = values.get("#queue-req", rank.queued)
        usages = [values[name] for name in _USAGES if name in values]
        rank.kv_usage = max(usages) if usages else rank.kv_usage
        running = values.get("#running-req", rank.running)
        if found["kind"] == "Decode":
            rank.running = running
            rank.tokens_per_s, rank.decoded_at = values.get("gen throughput (token/s)"), at
        else:
            rank.running = None if running is None else running + values.get("#new-seq", 0)  # they run from here on
            rank.prefills.append((at, values.get("#new-token", 0), values.get("#cached-token", 0)))

    def reading(self, at: datetime | None = None) -> Reading | None:
        """The figures at `at` (now), summed over ranks; None where the log has said none yet."""
        if not self._ranks:
            return None
        at = at or now()
        return gathered([_as_of(rank, at) for rank in self._ranks.values()], at, "log", None)


def _pairs(text: str) -> dict[str, float]:
    """The `key: value` pairs whose value is a number; what is none is not told."""
    pairs = (part.partition(": ") for part in text.split(", "))
    return {key: float(value) for key, _, value in pairs if _NUMBER.fullmatch(value)}


def _as_of(rank: _Rank, at: datetime) -> Rank:
    while rank.prefills and at - rank.prefills[0][0] > WINDOW:
        rank.prefills.popleft()
    cached = sum(hit for _, _, hit in rank.prefills)
    whole = cached + sum(computed for _, computed, _ in rank.prefills)
    cache_hit = cached / whole if whole else None
    if _silent(rank.at, at):
        return Rank(0, 0, rank.kv_usage and 0.0, None, 0.0, cache_hit)
    speed = 0.0 if rank.decoded_at is not None and _silent(rank.decoded_at, at) else rank.tokens_per_s
    return Rank(rank.running, rank.queued, rank.kv_usage, None, speed, cache_hit)


def _silent(since: datetime, at: datetime) -> bool:
    return (at - since).total_seconds() > QUIET_S


def _written(text: str | None, otherwise: datetime) -> datetime:
    """A line's own time: local to this machine, as the server that we started has it."""
    if text is None:
        return otherwise
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").astimezone()
    except ValueError:
        return otherwise
