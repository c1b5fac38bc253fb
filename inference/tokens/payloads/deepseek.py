"""DeepSeek: V3 and R1 write `function<sep>NAME` and a fenced JSON block, V3.1 `NAME<sep>JSON`. Both are read in either."""

import re
from collections.abc import Callable

from inference.tokens.payloads.arguments import read_arguments
from inference.tokens.payloads.payload import CallError, Payload, ToolCall

_FENCED = re.compile(
    r"[ \t]*(?P<name>[^\n`{]*)\n?[ \t]*```(?:json)?[ \t]*\n(?P<body>.*?)(?:\n?[ \t]*```\s*|\Z)", re.DOTALL
)


def read_deepseek_v3(payload: Payload) -> tuple[ToolCall, ...]:
    """A call as V3 and R1 write it; one in V3.1's way is read too, with a note."""
    return _read(payload, expected=_read_fenced, other=_read_plain, other_name="DeepSeek V3.1")


def _read(payload: Payload, *, expected: "_Reader", other: "_Reader", other_name: str) -> tuple[ToolCall, ...]:
    if len(payload.parts) == 1:
        error = CallError("tool_name_unreadable", "The separator between the call's type and its name is missing.", 0)
        return (ToolCall(None, payload.text, error),)
    call = expected(payload, None)
    if call is None:
        call = other(payload, f"The call is written as {other_name} writes calls.")
    return (call if call is not None else _unreadable(payload),)


_Reader = Callable[[Payload, str | None], ToolCall | None]


def _read_fenced(payload: Payload, note: str | None) -> ToolCall | None:
    body = payload.parts[1]
    match = _FENCED.fullmatch(body)
    if match is None or not match["name"].strip():
        return None
    start, end = payload.offset + match.start("body"), payload.offset + match.end("body")
    return read_arguments(match["name"].strip(), payload.text, start, end, note=note)


def _read_plain(payload: Payload, note: str | None) -> ToolCall | None:
    name = payload.parts[0].strip()
    if not re.fullmatch(r"[\w.-]+", name) or (name == "function" and not payload.parts[1].lstrip().startswith("{")):
        return None
    return read_arguments(name, payload.text, payload.offset, len(payload.text), note=note)


def _unreadable(payload: Payload) -> ToolCall:
    error = CallError("tool_name_unreadable", "No tool name can be read before a JSON block.", payload.offset)
    return ToolCall(None, payload.parts[1], error)
