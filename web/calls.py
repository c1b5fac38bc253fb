"""Tool-call arguments laid out for reading: only the white space between JSON tokens changes, never a token.

Parsing and printing again would turn 12345678901234567890 into another number and drop repeated keys, so the raw text is
cut into its tokens and these are written down unchanged.
"""

import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+', re.DOTALL)
_DEEPEST = 40
"""Indentation stops growing here: 100 kB of brackets must not become a gigabyte of blanks."""
_STEP = "  "


def pretty(raw: str) -> str | None:
    """Indented `raw`, or None where it has no JSON tokens (an unclosed string): then only the raw text is true."""
    tokens: list[str] = []
    at = 0
    for match in _TOKEN.finditer(raw):
        if match.start() != at:
            return None
        at = match.end()
        if not match.group().isspace():
            tokens.append(match.group())
    if at != len(raw) or not tokens:
        return None
    return "".join(_lay_out(tokens))


def _lay_out(tokens: list[str]) -> list[str]:
    out: list[str] = []
    depth = 0
    for position, token in enumerate(tokens):
        before = tokens[position - 1] if position else ""
        if token in "}]":
            depth = max(depth - 1, 0)
            if before not in ("{", "["):
                out.append(_line(depth))
        elif before in ("{", "[", ","):
            out.append(_line(depth))
        elif before == ":" or (before and before not in "}]" and token not in ",:") or (before in ("}", "]") and token not in ",:"):
            out.append(" ")
        out.append(token)
        if token in ("{", "["):
            depth += 1
    return out


def _line(depth: int) -> str:
    return "\n" + _STEP * min(depth, _DEEPEST)
