"""Kimi K2: `functions.NAME:INDEX`, the argument token, then a JSON object. The name lives in that header only."""

import re
from collections.abc import Set as AbstractSet

from inference.tokens.payloads.arguments import read_arguments
from inference.tokens.payloads.payload import CallError, Payload, ToolCall

_OFFICIAL = re.compile(r"functions\.(?P<name>[\w.-]+):\d+")
_SHORT = re.compile(r"(?P<name>[A-Za-z_][\w.-]*):\d+")
_AROUND = re.compile(r"(?:functions?[._]?)?(?P<name>.*?)[._:]?\d*", re.DOTALL)


def read_kimi(payload: Payload) -> tuple[ToolCall, ...]:
    """The one call in the payload; without the argument token the header ends where the first brace begins."""
    if len(payload.parts) > 1:
        header, start = payload.parts[0], payload.offset
        missing = False
    else:
        brace = payload.text.find("{")
        start = brace if brace >= 0 else len(payload.text)
        header, missing = payload.text[:start], True
    name = read_header(header.strip(), payload.tools)
    note = "The argument marker between the header and the arguments is missing." if missing else None
    call = read_arguments(name, payload.text, start, len(payload.text), note=note)
    if name is None:
        shown = header.strip()[:80]
        message = f"No tool name can be read from the header “{shown}”." if shown else "The call's header is empty."
        return (
            ToolCall(None, call.arguments, CallError("tool_name_unreadable", message, 0), call.value, note, call.span),
        )
    return (call,)


def read_header(header: str, tools: AbstractSet[str]) -> str | None:
    """The tool's name in a call header, None where no reading of it is safe.

    Beside the official spelling, `NAME:INDEX` is read; anything looser (`functionsget_time0`) only where it leads to exactly
    one tool that the prompt offered.
    """
    if header in tools:
        return header
    match = _OFFICIAL.fullmatch(header) or _SHORT.fullmatch(header)
    if match:
        return match["name"]
    loose = _AROUND.fullmatch(header)
    return loose["name"] if loose and loose["name"] in tools else None
