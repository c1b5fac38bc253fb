"""Geometry of the small drawings: minimap, progress bars, histogram. Numbers in, frozen shapes out; templates draw them."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.review.views import FlagView, SegmentView
from inference.runs.views import Counts


@dataclass(frozen=True, slots=True)
class Band:
    """One segment in the minimap, in units of the drawing."""

    number: int
    kind: str
    start: int
    end: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A flag's place beside the minimap."""

    start: int
    severity: str
    label: str
    y: float


@dataclass(frozen=True, slots=True)
class Minimap:
    """The whole output from top to bottom; a segment's height is its share of the tokens, yet never nothing."""

    height: float
    bands: tuple[Band, ...]
    ticks: tuple[Tick, ...]


_HEIGHT = 520.0
_LEAST = 3.0
_GAP = 1.0
_MOST_BANDS = 400


def minimap(segments: Sequence[SegmentView], flags: Sequence[FlagView]) -> Minimap:
    """Bands for the first 400 segments (a link each) and ticks for the flags that cite a range."""
    shown = segments[:_MOST_BANDS]
    total = sum(segment.end - segment.start for segment in shown)
    if not total:
        return Minimap(_HEIGHT, (), ())
    room = max(_HEIGHT - len(shown) * (_LEAST + _GAP), 0.0)
    bands: list[Band] = []
    y = 0.0
    for number, segment in enumerate(shown):
        height = _LEAST + room * (segment.end - segment.start) / total
        bands.append(Band(number, segment.kind, segment.start, segment.end, round(y, 1), round(height, 1)))
        y += height + _GAP
    ticks = tuple(
        Tick(flag.start, flag.severity, flag.message, _place(bands, flag.start))
        for flag in flags
        if flag.start is not None
    )
    return Minimap(round(max(y, 1.0), 1), tuple(bands), ticks)


def _place(bands: Sequence[Band], token: int) -> float:
    for band in bands:
        if token < band.end:
            return round(band.y + band.height * (token - band.start) / max(band.end - band.start, 1), 1)
    return round(bands[-1].y + bands[-1].height, 1)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a bar, in per cent of its width."""

    kind: str
    x: float
    width: float


def bar(counts: Counts) -> tuple[Part, ...]:
    """How far a run or a category is: clean, flagged, failed, in flight; the rest is still to do."""
    total = counts.total
    if not total:
        return ()
    flagged = min(counts.flagged, counts.done)
    stretches = (
        ("clean", counts.done - flagged),
        ("flagged", flagged),
        ("failed", counts.failed),
        ("skipped", counts.skipped),
        ("flight", counts.in_flight),
    )
    parts: list[Part] = []
    x = 0.0
    for kind, amount in stretches:
        if amount:
            width = 100 * amount / total
            parts.append(Part(kind, round(x, 2), round(width, 2)))
            x += width
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a histogram: its half-open range, its count, its place."""

    start: int
    end: int
    count: int
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Columns in a drawing of `width` × `height`."""

    width: float
    height: float
    columns: tuple[Column, ...]
    low: int
    high: int
    top: int


def histogram(bins: Sequence[tuple[int, int, int]], width: float = 480.0, height: float = 90.0) -> Histogram | None:
    """Columns of equal width, one a bin; None where there is nothing to draw."""
    top = max((amount for _, _, amount in bins), default=0)
    if not top:
        return None
    step = width / len(bins)
    columns = []
    for position, (start, end, amount) in enumerate(bins):
        tall = 0.0 if not amount else max(height * amount / top, 1.5)
        columns.append(
            Column(
                start,
                end,
                amount,
                round(position * step + 0.5, 2),
                round(max(step - 1, 0.5), 2),
                round(height - tall, 2),
                round(tall, 2),
            )
        )
    return Histogram(width, height, tuple(columns), bins[0][0], bins[-1][1], top)
