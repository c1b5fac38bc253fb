"""gpt-oss: the recipient in a message's header names the tool, the message is its arguments."""

import re
from dataclasses import replace

from inference.tokens.payloads.arguments import read_arguments
from inference.tokens.payloads.payload import CallError, Payload, ToolCall
from inference.tokens.payloads.wording import first_word, is_name, shown

_RECIPIENT = re.compile(r"(?:^|(?<=[\s>]))to\s{0,8}=\s{0,8}(?P<name>[^\s<]++)")
_FUNCTIONS = "functions."
_BUILTIN = re.compile(r"python|browser|browser\.\w+|container\.\w+")


def read_harmony(payload: Payload) -> tuple[ToolCall, ...]:
    """The one call of a message: `functions.NAME` with a JSON object, or a tool of the family's own, whose text may be anything.

    The recipient is read wherever it stands in the header: in the role's part or the channel's.
    """
    if len(payload.parts) == 1:
        error = CallError("tool_name_unreadable", "The message token after the call's header is missing.", 0)
        return (ToolCall(None, None, error),)
    header = payload.parts[0]
    found = list(_RECIPIENT.finditer(header))
    names = {match["name"] for match in found}
    if len(names) != 1:
        message = (
            "The header names no recipient."
            if not names
            else f"The header names several: {shown(', '.join(sorted(names)))}."
        )
        at = found[1].start("name") if len(names) > 1 else 0
        return (replace(_call(None, payload), error=CallError("tool_name_unreadable", message, at)),)
    recipient = found[0]["name"]
    if _BUILTIN.fullmatch(recipient) and recipient not in payload.tools:
        return (_builtin(recipient, payload),)
    name = recipient.removeprefix(_FUNCTIONS)
    if not (name in payload.tools or is_name(name)) or name == _FUNCTIONS.rstrip("."):
        message = f"No tool name can be read from the recipient “{shown(recipient)}”."
        at = found[0].start("name")
        return (replace(_call(None, payload), error=CallError("tool_name_unreadable", message, at)),)
    note = None if recipient != name else "The recipient is not in the namespace `functions`."
    return (replace(_call(name, payload), note=note),)


def _call(name: str | None, payload: Payload) -> ToolCall:
    return read_arguments(name, payload.text, payload.offset, len(payload.text))


def _builtin(name: str, payload: Payload) -> ToolCall:
    """A call of the family's own tool: whatever text it is given is valid; JSON is read where it is an object."""
    call = _call(name, payload)
    if call.error is None:
        return replace(call, builtin=True)
    start = first_word(payload.text, payload.offset)
    return ToolCall(name, payload.text[start:], span=(start, len(payload.text)), builtin=True)
