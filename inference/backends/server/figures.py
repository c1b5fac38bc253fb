"""Live figures of a server: how much it does at one moment, whichever source told it.

Three sources tell them, each a little differently: `/v1/loads`, Prometheus' `/metrics` and the log. What one does not tell is
None, never 0: a chart of zeros is a claim.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

Source = Literal["loads", "metrics", "log"]

FRESH_S = 10.0
"""Older figures say what was, not what is. SGLang writes them anew at each prefill, at every 15th decode step and while it
idles, so that only a hung scheduler or one very long step leaves them that old."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a server does, over all its data-parallel ranks.

    `kv_usage` and `cache_hit` are shares, 0 to 1; `tokens_per_s` counts generated tokens. `stale_s` is how old the figures were
    when they were read, by the server's own clock; None where the source does not tell.
    """

    at: datetime
    source: Source
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    tokens_per_s: float | None = None
    cache_hit: float | None = None
    stale_s: float | None = None

    @property
    def fresh(self) -> bool:
        """Whether it says what is now; a source that does not tell its age is believed."""
        return self.stale_s is None or self.stale_s <= FRESH_S

    @property
    def idle(self) -> bool:
        """Whether it surely has nothing to do: nothing runs, nothing waits, and the figures are of now."""
        return self.fresh and self.running == 0 and self.queued == 0

    @property
    def flowing(self) -> bool:
        """Whether tokens are being generated now, which only a living server can do."""
        return self.fresh and bool(self.running) and bool(self.tokens_per_s)

    def filled(self, other: "Reading | None") -> "Reading":
        """The same, with what it does not tell taken from another reading of the same moment; old ones stay as they are."""
        if other is None or not self.fresh:
            return self
        missing = {name: getattr(other, name) for name in _VALUES if getattr(self, name) is None}
        return replace(self, **missing)

    def values(self) -> tuple[float | None, ...]:
        """The figures without their time, as people see them: two that differ by less than a digit shown are the same."""
        return (
            self.running,
            self.queued,
            _rounded(self.kv_usage, 3),
            _rounded(self.tokens_per_s, 1),
            _rounded(self.cache_hit, 2),
            None if self.fresh else -1.0,
        )

    def to_json(self) -> dict[str, Any]:
        """For the backend's row."""
        return {
            "at": self.at.isoformat(),
            "source": self.source,
            **{name: getattr(self, name) for name in _VALUES},
            "stale_s": self.stale_s,
        }

    def __str__(self) -> str:
        counts = [
            f"{count} {word}"
            for count, word in ((self.running, "running"), (self.queued, "waiting"))
            if count is not None
        ]
        told = f"{', '.join(counts) or 'Not told what is running'}, by {_NAMES[self.source]}"
        return f"{told}." if self.fresh else f"{told}; it wrote that a while ago: one long step, or it hangs."


_NAMES: dict[Source, str] = {"loads": "/v1/loads", "metrics": "/metrics", "log": "the log"}
_MOST = 2**31 - 1
_VALUES = ("running", "queued", "kv_usage", "tokens_per_s", "cache_hit")


@dataclass(frozen=True, slots=True)
class Rank:
    """The figures of one data-parallel rank. `capacity` is the size of its KV cache in tokens, where it says."""

    running: float | None = None
    queued: float | None = None
    kv_usage: float | None = None
    capacity: float | None = None
    tokens_per_s: float | None = None
    cache_hit: float | None = None


def gathered(ranks: Sequence[Rank], at: datetime, source: Source, stale_s: float | None) -> Reading:
    """One reading of several ranks: what is counted is summed, shares are averaged, the KV cache's by capacity.

    Figures too old to be of now keep their counts, so that people see what was going on, but tell no speed. A server that
    runs nothing generates nothing, whatever the window of its own average still says.
    """
    running = _summed(rank.running for rank in ranks)
    speed = _summed(rank.tokens_per_s for rank in ranks)
    if stale_s is not None and stale_s > FRESH_S:
        speed = None
    elif running == 0:
        speed = 0.0
    return Reading(
        at=at,
        source=source,
        running=_counted(running),
        queued=_counted(_summed(rank.queued for rank in ranks)),
        kv_usage=_averaged([(rank.kv_usage, rank.capacity) for rank in ranks]),
        tokens_per_s=speed,
        cache_hit=_averaged([(rank.cache_hit, None) for rank in ranks]),
        stale_s=stale_s,
    )


def _summed(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _counted(value: float | None) -> int | None:
    """A count that fits its column: a server may claim anything."""
    return None if value is None else round(min(value, _MOST))


def _averaged(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """The mean of shares by weight; by number where any of them has no weight."""
    told = [(value, weight) for value, weight in pairs if value is not None]
    if not told:
        return None
    weights = [weight for _, weight in told if weight]
    if len(weights) < len(told):
        weights = [1.0] * len(told)
    mean = sum(value * weight for (value, _), weight in zip(told, weights, strict=True)) / sum(weights)
    return min(max(mean, 0.0), 1.0)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
