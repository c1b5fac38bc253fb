"""The way of a start-up, stage by stage, with the time of each: where it is, or where it ended."""

from dataclasses import dataclass
from datetime import datetime

from db.types import now
from inference.backends.logs.phases import FIRED, ORDER, SPAWNED, WARMING
from inference.backends.views import BackendView, PhaseView
from web import charts

UPWARD = ("starting", "loading", "warming_up")
ALIVE = (*UPWARD, "ready", "unresponsive", "draining", "stopping")
"""Observed states in which a process lives (or a watch goes on)"""

_TITLES = {
    SPAWNED: "Process started",
    "initialising": "Ranks come up",
    "loading weights": "Weights",
    "memory pool": "Memory pool",
    "graphs": "Graphs",
    WARMING: "Warm-up",
}
_READY = "ready"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a start-up. `state` is done, current, failed, skipped, missed (it ended before) or todo; `bar` is there while the log counts."""

    title: str
    state: str
    at: datetime | None
    took_s: float | None
    count: str = ""
    left_s: float | None = None
    bar: tuple[charts.Part, ...] = ()


def stages(backend: BackendView) -> tuple[Stage, ...]:
    """The stages of the current or last start, in order; empty for an attached server and before the first start."""
    if backend.kind != "managed" or backend.start_number is None:
        return ()
    times = _times(backend)
    names = [*(name for name in ORDER if name != FIRED), _READY]
    return tuple(
        _stage(
            backend, name, times.get(name), next((times[later] for later in names[at + 1 :] if later in times), None)
        )
        for at, name in enumerate(names)
    )


def _times(backend: BackendView) -> dict[str, datetime]:
    """When each stage was entered, as far as it was."""
    times = {passed.name: passed.at for passed in backend.phases}
    if backend.started_at is not None:
        times.setdefault(SPAWNED, backend.started_at)
    if backend.phase is not None and backend.phase.since is not None:
        times.setdefault(backend.phase.name, backend.phase.since)
    if FIRED in times:  # the log's word for ready, which proves nothing: still warm-up, until it answers
        times.setdefault(WARMING, times[FIRED])
    if backend.ready_at is not None:
        times[_READY] = backend.ready_at
    return times


def _stage(backend: BackendView, name: str, at: datetime | None, following: datetime | None) -> Stage:
    title = _TITLES.get(name, "Ready")
    if at is None:
        lives = backend.observed_state in ALIVE
        return Stage(title, "skipped" if following is not None else "todo" if lives else "missed", None, None)
    if name == _READY:
        return Stage(title, "done", at, None)
    passed = next((stage for stage in backend.phases if stage.name == name), None)
    if following is not None or backend.observed_state not in ALIVE:
        done, total = (passed.done, passed.total) if passed is not None else (None, None)
        took_s = (following - at).total_seconds() if following is not None else None
        return Stage(title, "done" if following is not None else "failed", at, took_s, _count(done, total))
    phase = backend.phase if backend.phase is not None and backend.phase.name == name else None
    done, total = (phase.done, phase.total) if phase is not None else (None, None)
    return Stage(
        title=title,
        state="current",
        at=at,
        took_s=(now() - at).total_seconds(),
        count=_count(done, total),
        left_s=_left_s(phase),
        bar=(charts.Part("flight", 0, round(100 * min((done or 0) / total, 1.0), 2)),) if total else (),
    )


def _left_s(phase: PhaseView | None) -> float | None:
    """What is left of the estimate by now; None once it is over: then nobody knows, and a bar that stands still has none."""
    if phase is None or phase.left_s is None:
        return None
    passed = (now() - phase.counted_at).total_seconds() if phase.counted_at is not None else 0.0
    return phase.left_s - passed if phase.left_s > passed else None


def _count(done: int | None, total: int | None) -> str:
    return f"{done or 0} of {total}" if total else ""
