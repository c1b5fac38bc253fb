"""Tool schemas and tool calls, in the shapes that people store them in.

Keys keep their order and numbers their spelling: both reach the model through the chat template.
"""

from collections.abc import Callable
from typing import Any

from inference.prompts.rows import Notes, RowRefused, kind_of, quote

Parse = Callable[[str], Any]


def read_tools(value: object, parse: Parse, notes: Notes) -> list[dict[str, Any]] | None:
    """The tools as a list of `{"type": "function", "function": {…}}`, or None where there are none.

    A JSON string is parsed; a bare function (no wrapper) is wrapped, with a notice; an empty string, list or object is none.

    Raises:
        RowRefused: not tools; a row is never taken with its tools left out.
    """
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = parse(value)
        except RowRefused as refusal:
            raise RowRefused("tools_not_json", f"`tools` is a string that is {refusal.message}") from None
    if value is None or (isinstance(value, list | dict) and not value):
        return None
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise RowRefused(
            "tools_wrong_shape", f"`tools` is {kind_of(value)} ({quote(value)}); a list of functions is needed"
        )
    return [_tool(tool, f"tools[{index}]", parse, notes) for index, tool in enumerate(listed)]


def _tool(tool: object, where: str, parse: Parse, notes: Notes) -> dict[str, Any]:
    if isinstance(tool, str):
        try:
            tool = parse(tool)
        except RowRefused as refusal:
            raise RowRefused("tools_not_json", f"`{where}` is a string that is {refusal.message}") from None
    if not isinstance(tool, dict):
        raise RowRefused("tools_wrong_shape", f"`{where}` is {kind_of(tool)} ({quote(tool)}); an object is needed")
    if "function" in tool:
        function = tool["function"]
        if not isinstance(function, dict) or not _named(function):
            raise RowRefused("tools_wrong_shape", f"`{where}.function` has no name")
        if "type" not in tool:
            notes.add("tool_type_added", f'`{where}` had no type; "type": "function" was put in', counted=True)
            return {"type": "function", **tool}
        return tool
    if not _named(tool):
        raise RowRefused("tools_wrong_shape", f"`{where}` has neither `function` nor `name` ({quote(tool)})")
    notes.add(
        "tool_wrapped",
        f'`{where}` ({quote(tool["name"])}) was a bare function; it was wrapped in {{"type": "function", …}}',
    )
    kind = tool.get("type", "function")
    bare = {key: item for key, item in tool.items() if key != "type"} if kind == "function" else tool
    return {"type": "function", "function": bare}


def _named(function: dict[str, Any]) -> bool:
    return isinstance(function.get("name"), str) and bool(function["name"])


def read_calls(value: object, where: str, parse: Parse, notes: Notes) -> list[dict[str, Any]]:
    """The calls of an assistant turn as `[{…, "function": {"name", "arguments"}}]`; arguments stay a string or a mapping, as given.

    Raises:
        RowRefused: a call without a readable name.
    """
    if isinstance(value, str):
        try:
            value = parse(value)
        except RowRefused as refusal:
            raise RowRefused("tool_call_unreadable", f"{where} is a string that is {refusal.message}") from None
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise RowRefused(
            "tool_call_unreadable", f"{where} is {kind_of(value)} ({quote(value)}); a list of calls is needed"
        )
    return [_call(call, f"{where}[{index}]", parse, notes) for index, call in enumerate(listed)]


def _call(call: object, where: str, parse: Parse, notes: Notes) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise RowRefused("tool_call_unreadable", f"{where} is {kind_of(call)} ({quote(call)}); an object is needed")
    function = call["function"] if isinstance(call.get("function"), dict) else call
    if not _named(function):
        raise RowRefused("tool_call_unreadable", f"{where} names no function")
    if "arguments" not in function and "parameters" in function:
        function = {("arguments" if key == "parameters" else key): item for key, item in function.items()}
    _check_arguments(function.get("arguments"), f"{where}.arguments", parse, notes)
    if call.get("function") is not None and isinstance(call["function"], dict):
        return {**call, "function": function}
    outer = {key: function[key] for key in ("id",) if key in function}
    return {
        **outer,
        "type": "function",
        "function": {key: item for key, item in function.items() if key not in {"id", "type"}},
    }


def _check_arguments(arguments: object, where: str, parse: Parse, notes: Notes) -> None:
    if isinstance(arguments, dict):
        return
    if isinstance(arguments, str):
        try:
            if isinstance(parse(arguments), dict):
                return
            problem = "is JSON, but not an object"
        except RowRefused as refusal:
            problem = f"is {refusal.message}"
        notes.add("arguments_not_json", f"{where} {problem}; it is kept as it stands")
        return
    notes.add(
        "arguments_not_json", f"{where} is {kind_of(arguments)} ({quote(arguments)}), neither an object nor a string"
    )


def calls_in_text(text: str, parse: Parse) -> tuple[str, list[dict[str, Any]]] | None:
    """The text before, and the calls in, `<tool_call>{…}</tool_call>` blocks that end an assistant turn; None where it is none."""
    before, mark, rest = text.partition("<tool_call>")
    if not mark:
        return None
    calls: list[dict[str, Any]] = []
    for index, block in enumerate((mark + rest).split("<tool_call>")[1:]):
        body, end, after = block.partition("</tool_call>")
        if not end or after.strip():
            return None
        try:
            calls.append(_call(parse(body.strip()), f"call {index}", parse, Notes()))
        except RowRefused:
            return None
    return before.rstrip(), calls
