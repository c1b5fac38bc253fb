"""A call's arguments, where they are JSON: an object, and nothing else, counts as valid."""

from dataclasses import replace

from inference.tokens.payloads.jsontext import (
    JsonError,
    JsonValue,
    Number,
    RawText,
    Repeating,
    read_whole,
    repeated_key,
)
from inference.tokens.payloads.payload import CallError, ToolCall
from inference.tokens.payloads.wording import shown


def read_arguments(name: str | None, text: str, start: int, end: int, *, note: str | None = None) -> ToolCall:
    """The call `name` with the arguments text[start:end]; whitespace around them is not part of them."""
    raw = text[start:end]
    begin = start + len(raw) - len(raw.lstrip())
    raw = raw.strip()
    begin = min(begin, end)
    call = ToolCall(name, raw, note=note, span=(begin, begin + len(raw)))
    if not raw:
        return replace(call, error=CallError("tool_arguments_invalid", "The arguments are empty.", begin))
    try:
        value = read_whole(raw).value
    except JsonError as error:
        message = f"The arguments are not JSON: {error.message}."
        return replace(call, error=CallError("tool_json_invalid", message, begin + error.position))
    return judge(call, value)


def judge(call: ToolCall, value: JsonValue) -> ToolCall:
    """The call, its arguments read as this JSON value: an object is valid, a string that holds JSON was encoded twice."""
    begin = call.span[0] if call.span else 0
    if not isinstance(value, dict):
        return replace(call, error=CallError("tool_arguments_invalid", _complaint(value), begin))
    twice = repeated_key(call.arguments or "", 0) if isinstance(value, Repeating) else None
    error = repeated(twice[0], begin + twice[1]) if twice else None
    return ToolCall(call.name, call.arguments, error, value, call.note, call.span)


def repeated(key: str, position: int) -> CallError:
    """What is said of an argument that is given again at `position`."""
    message = f"The argument “{shown(key)}” is given more than once; its last value counts."
    return CallError("tool_arguments_invalid", message, position)


def _complaint(value: JsonValue) -> str:
    if type(value) is str:  # a Number is a str as well
        try:
            inner = read_whole(value).value
        except JsonError:
            inner = None
        if isinstance(inner, dict):
            return "The arguments are encoded twice: a JSON string that holds a JSON object."
    return f"The arguments are {describe(value)}, not a JSON object."


def describe(value: JsonValue) -> str:
    """What a value is, in words."""
    if isinstance(value, RawText):
        return f"the text “{shown(value, 40)}”"
    if isinstance(value, Number):
        return "a number"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return "null" if value is None else "a string"
