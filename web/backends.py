"""Backends as their pages show them: what is wanted beside what is, what may be done and by when, figures of now."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from db.types import now
from inference.backends.figures import FigureSeries
from inference.backends.launch.preview import shell_text
from inference.backends.launch.spec import LaunchSpec
from inference.backends.views import BackendView, FiguresView
from inference.runs.uses import RunUse
from web import timelines, words
from web.startup import ALIVE, UPWARD, Stage, stages

OLD_S = 90.0
"""Figures older than this are not of now: those of a living server are renewed every 30 s."""

_ACTIONS = ("start", "stop", "restart", "probe", "kill", "forget")
_DRAIN_LIMIT_S = LaunchSpec.model_fields["drain_limit_s"].default
_DEADLINES = {
    "draining": "Requests in flight may finish for",
    "stopping": "Ended by force in",
    "backoff": "Started again in",
}


@dataclass(frozen=True, slots=True)
class Deed:
    """A button: what it does, what it says, and what is asked before."""

    action: str
    text: str
    style: str
    confirm: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What the head of a page says of a backend."""

    wanted: str
    """What is wanted of it, where that is not what is seen; else empty"""
    deadline: str
    """What the time that runs is for; empty where none does"""
    deadline_left: str
    deeds: tuple[Deed, ...]
    stages: tuple[Stage, ...]
    rising: bool
    figures: FiguresView | None
    follower: str
    """Which part of a larger server it is; empty for a whole one"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list."""

    backend: BackendView
    standing: Standing
    model: str
    runs: tuple[RunUse, ...]
    spark: timelines.Timeline | None


def rows(
    found: Sequence[BackendView],
    series: Mapping[int, FigureSeries] | None = None,
    uses: Mapping[int, Sequence[RunUse]] | None = None,
) -> list[Row]:
    """The lines of a list; sparklines where `series` are given."""
    lines = []
    for backend in found:
        runs = tuple((uses or {}).get(backend.id, ()))
        stand = standing(backend, runs)
        spark = timelines.sparkline(series[backend.id], stand.figures) if series is not None else None
        lines.append(Row(backend, stand, short_model(backend), runs, spark))
    return lines


def standing(backend: BackendView, runs: Sequence[RunUse] = ()) -> Standing:
    """What there is to say at a glance."""
    state = backend.observed_state
    deadline_at = backend.retry_at if state == "backoff" else backend.deadline_at
    deadline = _DEADLINES.get(state, "Given up in" if state in UPWARD else "") if deadline_at is not None else ""
    return Standing(
        wanted=_wanted(backend),
        deadline=deadline,
        deadline_left=_left(deadline_at) if deadline_at is not None else "",
        deeds=tuple(_deed(backend, action, runs) for action in _ACTIONS if action in backend.allowed),
        stages=stages(backend),
        rising=state in UPWARD,
        figures=current_figures(backend),
        follower=_follower(backend),
    )


def current_figures(backend: BackendView) -> FiguresView | None:
    """The figures, where they are of now: a dead server's last ones say nothing."""
    figures = backend.figures
    if figures is None or backend.observed_state not in ALIVE or (now() - figures.at).total_seconds() > OLD_S:
        return None
    return figures


def short_model(backend: BackendView) -> str:
    """The model as people call it: the last part of its path, or the address where no model is known."""
    model = backend.model or (backend.launch or {}).get("model_path")
    return PurePosixPath(str(model)).name or str(model) if model else backend.url or ""


def command_text(backend: BackendView) -> str:
    """The command for a POSIX shell, one flag a line; empty before the first start."""
    if not backend.command:
        return ""
    return shell_text(backend.command, backend.environment)


def _left(until: datetime) -> str:
    """A countdown, in whole seconds."""
    seconds = math.ceil((until - now()).total_seconds())
    return "moments" if seconds <= 0 else f"{seconds} s" if seconds < 60 else words.duration(seconds)  # noqa: PLR2004


def _wanted(backend: BackendView) -> str:
    state, wanted = backend.observed_state, backend.desired_state
    agrees = state in {"stopped", "failed"} if wanted == "stopped" else state in {*UPWARD, "ready"}
    return "" if agrees else wanted


def _deed(backend: BackendView, action: str, runs: Sequence[RunUse]) -> Deed:
    attached, name = backend.kind == "attached", backend.name
    using = f" {_using(runs)}" if runs else ""
    grace = (backend.launch or {}).get("drain_limit_s", _DRAIN_LIMIT_S)
    told = {
        "start": ("Watch" if attached else {"backoff": "Start now", "failed": "Try again"}.get(backend.observed_state, "Start"),
                  "primary", ""),
        "stop": ("Stop watching" if attached else "Stop", "",
                 f"Stop watching {name}? The server itself runs on.{using}" if attached
                 else f"Stop {name}? Requests in flight may finish for up to {grace:g} s.{using}"),
        "restart": ("Restart", "", f"Restart {name}? Requests in flight may finish for up to {grace:g} s, then it starts anew.{using}"),
        "probe": ("Probe", "", ""),
        "kill": ("End it now", "danger" if backend.observed_state in {"draining", "stopping", "unresponsive"} else "danger quiet", f"End {name} now? Requests in flight are lost; runs ask for them again."),
        "forget": ("It is gone", "danger", f"Is the server of {name} surely gone? One that still runs is left alone, and its GPUs stay taken."),
    }  # fmt: skip
    text, style, confirm = told[action]
    running = backend.observed_state in ALIVE
    return Deed(action, text, style, confirm if action in {"kill", "forget"} or running else "")


def _using(runs: Sequence[RunUse]) -> str:
    first = f"Run {runs[0].id} ({runs[0].name})"
    return f"{first} uses it." if len(runs) == 1 else f"{first} and {len(runs) - 1} more use it."


def _follower(backend: BackendView) -> str:
    launch = backend.launch or {}
    rank, count = launch.get("node_rank") or 0, launch.get("nnodes") or 1
    if count <= 1:
        return ""
    return f"node {rank} of {count}" + ("; requests go to node 0" if rank else "; it answers for all of them")
