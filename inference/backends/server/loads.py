"""Live figures over HTTP: `/v1/loads`, and `/metrics` where a server does not have that.

`/v1/loads` reads a snapshot in shared memory that the scheduler writes, so it answers even while the scheduler hangs: its age
is told by the timestamps in it, the server's own against the server's own. Of a server without `--enable-metrics` the
snapshot's throughput and cache hit rate are always 0 (srt/managers/scheduler_components/metrics_reporter.py updates them with
the metrics alone); its counter of decoded tokens is true in both.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from db.types import now
from inference.backends.server.answers import GenerateError
from inference.backends.server.client import SglangClient
from inference.backends.server.figures import Rank, Reading, gathered
from inference.backends.server.metrics import read_metrics

TIMEOUT_S = 5.0
AGAIN_S = 60.0
"""A server that told no figures is asked again after so long; each question is a line in its log."""

LOADS = "/v1/loads?include=core"
METRICS = "/metrics"
_ABSENT = frozenset({400, 401, 403, 404, 405, 501})
_MOST = 1e15
_TOKENS_AT = 5
"""Where `decode_moments` counts the tokens of all decode steps (`_accumulate_decode_moment` in srt/managers/scheduler.py)."""


@dataclass(slots=True)
class _Memory:
    """What is known of one server's sources, and what it said last."""

    source: str = "loads"
    ask_at: float = 0.0
    """monotonic; when none of the sources is there"""
    counters: dict[float | None, tuple[float, float]] = field(default_factory=dict)
    """rank → (its timestamp, tokens decoded by then)"""
    metrics_on: bool = False
    same_since: float = 0.0
    same: object = None


_memories: "WeakKeyDictionary[SglangClient, _Memory]" = WeakKeyDictionary()


async def read_figures(client: SglangClient) -> Reading | None:
    """What the server does now; None where it tells nothing, or cannot be asked at the moment.

    Never raises for a sick server. Which source a server has is remembered for as long as the client lives.
    """
    memory = _memories.setdefault(client, _Memory())
    if memory.source == "none":
        if time.monotonic() < memory.ask_at:
            return None
        memory.source = "loads"
    try:
        if memory.source == "loads":
            reading = await _from_loads(client, memory)
            if reading is not None:
                return reading
            memory.source = "metrics"
        reading = await _from_metrics(client, memory)
    except GenerateError:
        return None
    if reading is None:
        memory.source, memory.ask_at = "none", time.monotonic() + AGAIN_S
    return reading


async def _from_loads(client: SglangClient, memory: _Memory) -> Reading | None:
    """None: the server has no such page, or another one of that name."""
    try:
        answer = await client.call("GET", LOADS, timeout_s=TIMEOUT_S)
    except GenerateError as error:
        if error.status in _ABSENT or error.kind == "malformed":
            return None
        raise
    return read_loads(answer, memory)


async def _from_metrics(client: SglangClient, memory: _Memory) -> Reading | None:
    try:
        text = await client.text(METRICS, timeout_s=TIMEOUT_S)
    except GenerateError as error:
        if error.status in _ABSENT or error.kind == "malformed":
            return None
        raise
    ranks = read_metrics(text)
    if not ranks:
        return None
    seen = tuple(ranks)
    if seen != memory.same:
        memory.same, memory.same_since = seen, time.monotonic()
    # The page is served by a process that does not hang with the scheduler, and says no time: figures of work that never
    # change are old. Those of an idle server do not change either, and are true.
    working = any(rank.running for rank in ranks)
    return gathered(ranks, now(), "metrics", time.monotonic() - memory.same_since if working else None)


def read_loads(answer: Any, memory: "_Memory | None" = None) -> Reading | None:
    """A reading of `/v1/loads`' answer; None where it is not of that shape. `memory` holds the counters of the time before."""
    loads = answer.get("loads") if isinstance(answer, Mapping) else None
    if not isinstance(loads, list):
        return None
    memory = memory if memory is not None else _Memory()
    ranks = [_rank(load, memory) for load in loads if isinstance(load, Mapping)]
    ranks = [rank for rank in ranks if rank.running is not None]
    if not ranks:
        return None
    return gathered(ranks, now(), "loads", _age(answer.get("timestamp"), loads))


def _rank(load: Mapping[str, Any], memory: _Memory) -> Rank:
    speed, cache_hit = _number(load.get("gen_throughput")), _number(load.get("cache_hit_rate"))
    memory.metrics_on = memory.metrics_on or bool(speed) or bool(cache_hit)
    counted = _counted(load, memory)
    if not memory.metrics_on:
        speed = cache_hit = None
    if not speed and counted is not None:
        speed = counted
    return Rank(
        running=_number(load.get("num_running_reqs")),
        queued=_number(load.get("num_waiting_reqs")),
        kv_usage=_number(load.get("token_usage")),
        capacity=_number(load.get("max_total_num_tokens")),
        tokens_per_s=speed,
        cache_hit=cache_hit,
    )


def _counted(load: Mapping[str, Any], memory: _Memory) -> float | None:
    """Tokens a second since the snapshot before, by the rank's own counter and clock; None at the first."""
    moments, at, rank = load.get("decode_moments"), _number(load.get("timestamp")), _number(load.get("dp_rank"))
    if at is None or not isinstance(moments, list) or len(moments) <= _TOKENS_AT:
        return None
    tokens = _number(moments[_TOKENS_AT])
    if tokens is None:
        return None
    before = memory.counters.get(rank)
    memory.counters[rank] = (at, tokens)
    if before is None or at <= before[0] or tokens < before[1]:  # the same snapshot, or another server
        return None
    return (tokens - before[1]) / (at - before[0])


def _age(answered: Any, loads: list[Any]) -> float | None:
    """Seconds from the oldest rank's snapshot to the answer; a rank that never wrote one has time 0 and is left out."""
    try:
        moment = datetime.fromisoformat(answered)
    except (TypeError, ValueError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    written = [_number(load.get("timestamp")) for load in loads if isinstance(load, Mapping)]
    told = [at for at in written if at]
    return max(0.0, moment.timestamp() - min(told)) if told else None


def _number(value: Any) -> float | None:
    """A number as a server may honestly give it; anything else is not told."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        return None
    return float(value)
