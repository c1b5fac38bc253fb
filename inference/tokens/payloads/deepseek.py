"""DeepSeek: V3 and R1 write `function<sep>NAME` and a fenced JSON block, V3.1 `NAME<sep>JSON`. Both are read in either."""

from collections.abc import Callable

from inference.tokens.payloads.arguments import read_arguments
from inference.tokens.payloads.payload import CallError, Payload, ToolCall
from inference.tokens.payloads.wording import first_word, is_name

_FENCE = "```"
_Reader = Callable[[Payload, str | None], ToolCall | None]


def read_deepseek_v3(payload: Payload) -> tuple[ToolCall, ...]:
    """A call as V3 and R1 write it; one in V3.1's way is read too, with a note."""
    return _read(payload, expected=_read_fenced, other=_read_plain, other_name="DeepSeek V3.1")


def read_deepseek_v31(payload: Payload) -> tuple[ToolCall, ...]:
    """A call as V3.1 writes it; one in the way of V3 and R1 is read too, with a note."""
    return _read(payload, expected=_read_plain, other=_read_fenced, other_name="DeepSeek V3")


def _read(payload: Payload, *, expected: _Reader, other: _Reader, other_name: str) -> tuple[ToolCall, ...]:
    if len(payload.parts) == 1:
        return (_without_separator(payload),)
    call = expected(payload, None)
    if call is None:
        call = other(payload, f"The call is written as {other_name} writes calls.")
    return (call if call is not None else _unreadable(payload),)


def _read_fenced(payload: Payload, note: str | None) -> ToolCall | None:
    text, fence = payload.text, payload.text.find(_FENCE, payload.offset)
    if fence < 0 or payload.parts[0].strip().startswith("{"):
        return None
    name = text[payload.offset : fence].strip()
    if not (name in payload.tools or is_name(name)):
        return None
    start, end, closed = _inside(text, fence)
    if not closed and note is None:
        note = "The code fence around the arguments is not closed."
    return read_arguments(name, text, start, end, note=note)


def _inside(text: str, fence: int) -> tuple[int, int, bool]:
    """What stands inside the code fence that opens at `fence`, and whether it is closed at the text's end."""
    start = fence + len(_FENCE)
    line = text.find("\n", start)
    if line >= 0 and text[start:line].strip() in {"", "json"}:
        start = line + 1
    elif text.startswith("json", start):
        start += len("json")
    end = len(text.rstrip())
    closed = end >= start + len(_FENCE) and text.endswith(_FENCE, start, end)
    return start, end - len(_FENCE) if closed else len(text), closed


def _read_plain(payload: Payload, note: str | None) -> ToolCall | None:
    name = payload.parts[0].strip()
    body = payload.parts[1].lstrip()
    if not (name in payload.tools or is_name(name)) or (name == "function" and not body.startswith("{")):
        return None
    if body.startswith(_FENCE):
        start, end, _ = _inside(payload.text, len(payload.text) - len(body))
        note = note or "A code fence stands around the arguments."
        return read_arguments(name, payload.text, start, end, note=note)
    return read_arguments(name, payload.text, payload.offset, len(payload.text), note=note)


def _without_separator(payload: Payload) -> ToolCall:
    brace = payload.text.find("{")
    name = payload.text[: max(brace, 0)].strip()
    if name in payload.tools or is_name(name):
        note = "The separator between the name and the arguments is missing."
        return read_arguments(name, payload.text, brace, len(payload.text), note=note)
    error = CallError("tool_name_unreadable", "The separator between the call's type and its name is missing.", 0)
    return ToolCall(None, payload.text, error)


def _unreadable(payload: Payload) -> ToolCall:
    error = CallError("tool_name_unreadable", "No tool name can be read before the arguments.", payload.offset)
    begin = first_word(payload.text, payload.offset)
    return ToolCall(None, payload.parts[1], error, span=(min(begin, payload.offset), len(payload.text)))
