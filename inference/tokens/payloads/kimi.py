"""Kimi K2: `functions.NAME:INDEX`, the argument token, then a JSON object. The name lives in that header only."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import replace

from inference.tokens.payloads.arguments import read_arguments
from inference.tokens.payloads.payload import CallError, Payload, ToolCall
from inference.tokens.payloads.wording import shown

_OFFICIAL = re.compile(r"functions\.(?P<name>[\w-]++(?:\.[\w-]++)*+):\d+")
_SHORT = re.compile(r"(?!functions\.?:)(?P<name>[A-Za-z_][\w-]*+(?:\.[\w-]++)*+):\d+")  # the namespace alone is no name
_PREFIX = re.compile(r"functions?[._]?")
_INDEX = re.compile(r"[._:]?\d*+")


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
        told = shown(header.strip())
        message = f"No tool name can be read from the header “{told}”." if told else "The call's header is empty."
        return (replace(call, error=CallError("tool_name_unreadable", message, 0)),)
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
    prefix = _PREFIX.match(header)
    starts = (0, prefix.end()) if prefix else (0,)
    fitting = {
        tool
        for tool in tools
        for start in starts
        if tool and header.startswith(tool, start) and _INDEX.fullmatch(header, start + len(tool))
    }
    return fitting.pop() if len(fitting) == 1 else None
