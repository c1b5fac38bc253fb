"""Tool-call arguments laid out for reading: only the white space between JSON parts changes, never a part.

Parsing and printing again would turn 12345678901234567890 into another number and drop repeated keys, so the raw text is
cut into its parts and these are written down unchanged.
"""

import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+', re.DOTALL)
_DEEPEST = 40
"""Indentation stops growing here: 100 kB of brackets must not become a gigabyte of blanks."""
_STEP = "  "


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
