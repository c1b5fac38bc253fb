"""Hermes and Qwen: a JSON object with `name` and `arguments` (`parameters` is read as well), or a list of them."""

from inference.tokens.payloads.arguments import describe, judge
from inference.tokens.payloads.jsontext import JsonError, Located, read_items, read_members, read_whole
from inference.tokens.payloads.payload import CallError, Payload, ToolCall


def read_hermes(payload: Payload) -> tuple[ToolCall, ...]:
    """The calls in the payload: one, or one for each item of a list. A bad item does not take the good ones with it."""
    text = payload.text
    if not text.strip():
        return (ToolCall(None, None, CallError("tool_json_invalid", "The call is empty.", 0)),)
    try:
        whole = read_whole(text)
    except JsonError as error:
        return (
            ToolCall(
                None, None, CallError("tool_json_invalid", f"The call is not JSON: {error.message}.", error.position)
            ),
        )
    if isinstance(whole.value, list):
        items = read_items(text, whole.start)
        if items:
            return tuple(_read_object(text, item) for item in items)
    return (_read_object(text, whole),)


def _read_object(text: str, found: Located) -> ToolCall:
    if not isinstance(found.value, dict):
        message = f"The call is {describe(found.value)}, not an object with a name and arguments."
        return ToolCall(None, None, CallError("tool_name_unreadable", message, found.start))
    members = read_members(text, found.start)
    given = members.get("name")
    name = given.value if given is not None and type(given.value) is str and given.value.strip() else None
    arguments = members.get("arguments") or members.get("parameters")
    if arguments is None:
        message = "The call has no arguments." if name else "The call has neither a name nor arguments."
        code = "tool_arguments_invalid" if name else "tool_name_unreadable"
        return ToolCall(name, None, CallError(code, message, found.start))
    span = (arguments.start, arguments.end)
    call = judge(name, text[arguments.start : arguments.end], arguments.value, span)
    if name is None:
        at = given.start if given is not None else found.start
        error = CallError("tool_name_unreadable", "The call has no name that is a text.", at)
        return ToolCall(None, call.arguments, error, call.value, span=span)
    return call
