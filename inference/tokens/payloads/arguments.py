"""A call's arguments, where they are JSON: an object, and nothing else, counts as valid."""

from inference.tokens.payloads.jsontext import JsonError, JsonValue, read_whole
from inference.tokens.payloads.payload import CallError, ToolCall


def read_arguments(name: str | None, text: str, start: int, end: int, *, note: str | None = None) -> ToolCall:
    """The call `name` with the arguments text[start:end]; whitespace around them is not part of them."""
    raw = text[start:end]
    begin = start + len(raw) - len(raw.lstrip())
    raw = raw.strip()
    span = (begin, begin + len(raw))
    if not raw:
        return ToolCall(
            name, raw, CallError("tool_arguments_invalid", "The arguments are empty.", begin), note=note, span=span
        )
    try:
        value = read_whole(raw).value
    except JsonError as error:
        message = f"The arguments are not JSON: {error.message}."
        return ToolCall(
            name, raw, CallError("tool_json_invalid", message, begin + error.position), note=note, span=span
        )
    return judge(name, raw, value, span, note=note)


def judge(name: str | None, raw: str, value: JsonValue, span: tuple[int, int], *, note: str | None = None) -> ToolCall:
    """The call with arguments already read as JSON: an object is valid, a string that holds JSON was encoded twice."""
    if isinstance(value, dict):
        return ToolCall(name, raw, value=value, note=note, span=span)
    return ToolCall(name, raw, CallError("tool_arguments_invalid", _complaint(value), span[0]), note=note, span=span)


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
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return "a string" if type(value) is str else "a number"
