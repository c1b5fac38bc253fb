"""The figures of servers over time, as charts and scripts want them: few points, however many readings there are."""

import math
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from sqlmodel import Session, col, select

from db.errors import Invalid
from db.tables import BackendFigure
from db.types import now
from inference.backends.service import get_backend
from inference.model import View

MOST_POINTS = 600
MOST_MINUTES = 360
"""Readings are kept for so long (`supervision/figures.py`)."""
_FEW = 180
"""Points where nobody says how many"""


class FigurePoint(View):
    """What a server did in one step of time from `at` on; None where its source does not tell.

    `running` and `queued` are the most that were seen, `tokens_per_s` and the shares `kv_usage` and `cache_hit` (0 to 1) are
    means.
    """

    at: datetime
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    tokens_per_s: float | None = None
    cache_hit: float | None = None


class FigureSeries(View):
    """The points of one backend, oldest first; a step without a reading has none, so that a gap stays one."""

    since: datetime
    until: datetime
    step_s: int
    points: list[FigurePoint]


def figure_series(s: Session, backend_id: int, minutes: int, step_s: int | None = None) -> FigureSeries:
    """The figures of the last `minutes` (1 to 360) in steps of `step_s` seconds; left out, about 180 of them.

    Raises:
        NotFound: there is no such backend.
        Invalid: `bad_minutes`, or `bad_step` where that makes more than 600 points.
    """
    get_backend(s, backend_id)
    return recent_series(s, [backend_id], minutes, step_s)[backend_id]


def recent_series(
    s: Session, backend_ids: Collection[int], minutes: int, step_s: int | None = None
) -> dict[int, FigureSeries]:
    """The same for several backends, in one query; each has a series, an empty one where nothing was read."""
    step = _checked_step(minutes, step_s)
    until = now()
    since = until - timedelta(minutes=minutes)
    query = (
        select(BackendFigure)
        .where(col(BackendFigure.backend_id).in_(backend_ids), col(BackendFigure.at) >= since)
        .order_by(col(BackendFigure.backend_id), col(BackendFigure.at))
    )
    steps: dict[int, dict[int, list[BackendFigure]]] = {number: {} for number in backend_ids}
    for row in s.exec(query):
        steps[row.backend_id].setdefault(math.floor(row.at.timestamp() / step), []).append(row)
    return {
        number: FigureSeries(
            since=since,
            until=until,
            step_s=step,
            points=[_point(datetime.fromtimestamp(at * step, UTC), rows) for at, rows in sorted(found.items())],
        )
        for number, found in steps.items()
    }


def _checked_step(minutes: int, step_s: int | None) -> int:
    if not 1 <= minutes <= MOST_MINUTES:
        raise Invalid(
            "bad_minutes", f"minutes is {minutes}: figures are kept for 6 hours, so use 1 to 360.", field="minutes"
        )
    if step_s is None:
        return max(1, math.ceil(minutes * 60 / _FEW))
    least = max(1, math.ceil(minutes * 60 / MOST_POINTS))
    if step_s < least:
        raise Invalid(
            "bad_step",
            f"step is {step_s} s: {minutes} minutes in such steps are more than {MOST_POINTS} points; use {least} or more.",
            field="step",
        )
    return step_s


def _point(at: datetime, rows: list[BackendFigure]) -> FigurePoint:
    return FigurePoint(
        at=at,
        running=_most(row.running for row in rows),
        queued=_most(row.queued for row in rows),
        kv_usage=_mean(row.kv_usage for row in rows),
        tokens_per_s=_mean(row.tokens_per_s for row in rows),
        cache_hit=_mean(row.cache_hit for row in rows),
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if told else None
