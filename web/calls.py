"""Tool-call arguments laid out for reading: only the white space between JSON parts changes, never a part.

Parsing and printing again would turn 12345678901234567890 into another number and drop repeated keys, so the raw text is
cut into its parts and these are written down unchanged.
"""

import re
from dataclasses import dataclass

from inference.review.views import CallView, SegmentView

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+', re.DOTALL)
_DEEPEST = 40
"""Indentation stops growing here: 100 kB of brackets must not become a gigabyte of blanks."""
_STEP = "  "


_AROUND = 24
"""Characters shown on each side of a fault"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call's first fault is: its character, with what stands around it. At the text's end `here` is empty."""

    position: int
    before: str
    here: str
    after: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a segment. `valid` is None where it was not checked; `pretty` is None where only the raw text is true."""

    name: str | None
    arguments: str | None
    pretty: str | None
    valid: bool | None
    error: str | None
    at: Place | None


def of(segment: SegmentView, told: str = "") -> tuple[Call, ...]:
    """Every call in a segment; one that cannot be read where its payload holds none. None for other kinds.

    `told` is what the page says of the segment anyway: an only call's fault is not said twice.
    """
    if segment.kind != "tool_call":
        return ()
    if not segment.calls:
        return (_call(segment.name, segment.arguments, segment.arguments_valid, None, None),)
    only = len(segment.calls) == 1
    return tuple(
        _call(
            item.name,
            item.arguments,
            item.arguments_valid,
            None if only and item.error and item.error in told else item.error,
            _place(segment.text, item),
        )
        for item in segment.calls
    )


def _call(name: str | None, arguments: str | None, valid: bool | None, error: str | None, at: Place | None) -> Call:
    laid = pretty(arguments) if arguments is not None and arguments.lstrip()[:1] in {"{", "["} else None
    return Call(name, arguments, laid, valid, error, at)


def _place(text: str, call: CallView) -> Place | None:
    if call.position is None:
        return None
    at = min(call.position, len(text))
    return Place(at, text[max(at - _AROUND, 0) : at], text[at : at + 1], text[at + 1 : at + 1 + _AROUND])


def pretty(raw: str) -> str | None:
    """Indented `raw`, or None where it has no JSON parts (an unclosed string): then only the raw text is true."""
    parts: list[str] = []
    at = 0
    for match in _TOKEN.finditer(raw):
        if match.start() != at:
            return None
        at = match.end()
        if not match.group().isspace():
            parts.append(match.group())
    if at != len(raw) or not parts:
        return None
    return "".join(_lay_out(parts))


def _lay_out(parts: list[str]) -> list[str]:
    out: list[str] = []
    depth = 0
    for position, part in enumerate(parts):
        before = parts[position - 1] if position else ""
        if part in "}]":
            depth = max(depth - 1, 0)
            if before not in ("{", "["):
                out.append(_line(depth))
        elif before in ("{", "[", ","):
            out.append(_line(depth))
        elif (
            before == ":"
            or (before and before not in "}]" and part not in ",:")
            or (before in ("}", "]") and part not in ",:")
        ):
            out.append(" ")
        out.append(part)
        if part in ("{", "["):
            depth += 1
    return out


def _line(depth: int) -> str:
    return "\n" + _STEP * min(depth, _DEEPEST)
