"""Small charts of a server's figures over time: points in, frozen shapes and a text alternative out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference.backends.figures import FigurePoint, FigureSeries
from inference.backends.views import FiguresView
from web import words

WIDTH, HEIGHT = 300.0, 64.0
_EDGE = 1.5
_GAP_S = 75.0
"""A line breaks where nothing was read for longer: steady figures are kept every 30 s."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series as SVG paths: the line, and the area below it."""

    kind: str
    path: str
    area: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A chart of one figure; `label` says in words what it shows. `top` is the value at its upper edge."""

    name: str
    title: str
    now: str
    label: str
    top: str
    lines: tuple[Line, ...]
    key: tuple[tuple[str, str], ...] = ()
    """(kind of line, what it is) where there is more than one"""


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    title: str
    series: tuple[str, ...]
    text: Callable[[float | None], str]
    whole: float | None = None
    """The upper edge, where it is always the same"""


_FIGURES = (
    _Figure("requests", "Requests", ("running", "queued"), words.count),
    _Figure("speed", "Tokens a second", ("tokens_per_s",), words.rate),
    _Figure("kv", "KV cache in use", ("kv_usage",), words.percent, 1.0),
    _Figure("hits", "Prefix cache hits", ("cache_hit",), words.percent, 1.0),
)
_WORDS = {"running": "running", "queued": "waiting", "tokens_per_s": "generated", "kv_usage": "", "cache_hit": ""}


def timelines(series: FigureSeries, latest: FiguresView | None) -> tuple[Timeline, ...]:
    """The four charts; `latest` is what the server does now, None where it does nothing or nobody knows."""
    return tuple(_timeline(figure, series, latest) for figure in _FIGURES)


def sparkline(series: FigureSeries, latest: FiguresView | None) -> Timeline | None:
    """Tokens a second alone, for lists; None where there is no line to draw."""
    drawn = _timeline(_FIGURES[1], series, latest)
    return drawn if any(line.area for line in drawn.lines) else None


def _timeline(figure: _Figure, series: FigureSeries, latest: FiguresView | None) -> Timeline:
    points = list(series.points)
    if latest is not None and (not points or latest.at > points[-1].at):
        told = latest.model_dump(include={"at", *_WORDS})
        points.append(FigurePoint(**told))
    values = [value for name in figure.series for point in points if (value := getattr(point, name)) is not None]
    top = figure.whole or nice(max(values, default=0.0))
    lines = []
    for name in figure.series:
        runs = _runs([(point.at, getattr(point, name)) for point in points], max(_GAP_S, 3.0 * series.step_s))
        placed = [[(_x(at, series), _y(value, top)) for at, value in run] for run in runs]
        lines.append(Line(name, " ".join(map(_path, placed)), " ".join(map(_area, placed))))
    now = [getattr(latest, name) if latest is not None else None for name in figure.series]
    key = tuple((name, _WORDS[name]) for name in figure.series) if len(figure.series) > 1 else ()
    return Timeline(
        name=figure.name,
        title=figure.title,
        now=" · ".join(
            f"{figure.text(value)}{f' {_WORDS[name]}' if key else ''}"
            for name, value in zip(figure.series, now, strict=True)
        ),
        label=_label(figure, series, points, now),
        top=figure.text(top),
        lines=tuple(lines),
        key=key,
    )


def _label(figure: _Figure, series: FigureSeries, points: Sequence[FigurePoint], now: Sequence[float | None]) -> str:
    """What a chart shows, for who does not see it."""
    minutes = round((series.until - series.since).total_seconds() / 60)
    said = []
    for name, value in zip(figure.series, now, strict=True):
        told = [number for point in points if (number := getattr(point, name)) is not None]
        word = f"{_WORDS[name]} " if len(figure.series) > 1 else ""
        if told:
            said.append(
                f"{word}now {figure.text(value)}, at least {figure.text(min(told))}, at most {figure.text(max(told))}"
            )
        else:
            said.append(f"{word}not told")
    return f"{figure.title} over the last {minutes} minutes: {'; '.join(said)}."


def nice(value: float) -> float:
    """The least of 1, 2, 5, 10, 20, 50 … that is not below `value`, so that a chart's scale does not change all the time."""
    if value <= 1:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value * (1 - 1e-9))


def _runs(points: Sequence[tuple[datetime, float | None]], gap_s: float) -> list[list[tuple[datetime, float]]]:
    """The stretches in which it was read without a gap."""
    runs: list[list[tuple[datetime, float]]] = []
    last: datetime | None = None
    for at, value in points:
        if value is None:
            last = None
            continue
        if last is None or (at - last).total_seconds() > gap_s:
            runs.append([])
        runs[-1].append((at, float(value)))
        last = at
    return runs


def _x(at: datetime, series: FigureSeries) -> float:
    whole = (series.until - series.since).total_seconds()
    return round(WIDTH * min(max((at - series.since).total_seconds() / whole, 0.0), 1.0), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * min(value / top, 1.0), 1)


def _path(run: Sequence[tuple[float, float]]) -> str:
    """A single point is drawn as a dash, or it would not be seen."""
    (x, y), rest = run[0], run[1:]
    return f"M{x:g} {y:g}" + ("".join(f"L{x:g} {y:g}" for x, y in rest) if rest else "h1.5")


def _area(run: Sequence[tuple[float, float]]) -> str:
    return f"{_path(run)}L{run[-1][0]:g} {HEIGHT:g}L{run[0][0]:g} {HEIGHT:g}Z" if len(run) > 1 else ""
