"""Values in words, as templates show them: numbers, sizes, lengths of time, states. No markup."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from inference.quality.flags import FLAG_CODES

_MINUTE, _HOUR, _DAY = 60, 3600, 86400

_WORDS = {
    "tool_call": "tool call",
    "in_flight": "in flight",
    "warming_up": "warming up",
    "completed_with_failures": "completed with failures",
    "no_backend": "no backend",
}


def count(value: float | None) -> str:
    """1234567 → `1,234,567`; None → `–`."""
    return "–" if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A rate with the digits it deserves: `0`, `0.42`, `7.3`, `1,204`."""
    if not value:
        return "–" if value is None else "0"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004


def share(part: float, whole: float) -> str:
    """A part in per cent; never `100 %` for less than all, nor `0 %` for more than nothing."""
    if not whole:
        return "–"
    value = 100 * part / whole
    if 0 < value < 1:
        return "<1 %"
    if 99 < value < 100:  # noqa: PLR2004
        return ">99 %"
    return f"{value:.0f} %"


def percent(value: float | None) -> str:
    """A share of 1 in per cent; None → `–`, and nothing at all is `0 %`."""
    return "–" if value is None else share(value, 1.0)


def size(value: float | None) -> str:
    """Bytes in a unit that keeps three digits."""
    if value is None:
        return "–"
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:  # noqa: PLR2004
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"  # noqa: PLR2004
        amount /= 1000
    return f"{amount:.1f} TB"


def duration(seconds: float | None) -> str:
    """Seconds in words: `40 ms`, `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds is None:
        return "–"
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds * 1000:.0f} ms" if 0 < seconds < 0.1 else f"{max(seconds, 0):.1f} s"  # noqa: PLR2004
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def since(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago, as a duration."""
    return "–" if moment is None else duration(((now or datetime.now(UTC)) - moment).total_seconds())


def stamp(moment: datetime | None) -> str:
    """A moment for the `datetime` attribute of `<time>`."""
    return "" if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(moment: datetime | None) -> str:
    """A moment for reading, in UTC; the page's script turns it into the reader's own zone."""
    return "–" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def word(name: str | None) -> str:
    """A stored name as people write it: `tool_call` → `tool call`."""
    return "–" if name is None else _WORDS.get(name, name.replace("_", " "))


def meaning(code: str) -> str:
    """What a flag's code means, in a sentence; empty where it is none of the declared ones."""
    known = FLAG_CODES.get(code)
    return known.meaning if known else ""


_TONES = {
    "ok": {"ready", "completed", "done", "exported"},
    "busy": {
        "starting",
        "loading",
        "warming_up",
        "running",
        "in_flight",
        "reading",
        "writing",
        "stopping",
        "draining",
        "cancelling",
    },
    "wait": {"queued", "paused", "pausing", "backoff", "pending", "unknown", "completed_with_failures"},
    "bad": {"failed", "unresponsive", "error"},
}


def tone(state: str) -> str:
    """The class that a state's mark is drawn with; its word is always beside it."""
    return next((name for name, states in _TONES.items() if state in states), "rest")


def pretty_value(value: Any) -> str:
    """A JSON value laid out over lines."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def filter_value(value: str) -> str:
    """A value as a filter in an address reads it back: commas escaped, the empty one as a comma, percent-encoded."""
    return quote(value.replace("\\", "\\\\").replace(",", "\\,") or ",", safe="")


def hex_bytes(value: str) -> str:
    """`20746f` → `20 74 6F`."""
    return " ".join(value[at : at + 2] for at in range(0, len(value), 2)).upper()


def plain(value: Any) -> str:
    """A setting's value on one line."""
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    return json.dumps(value, ensure_ascii=False, default=str)
