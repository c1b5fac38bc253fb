"""Messages and tools as a chat template wants them. Whatever is changed on the way is said; nothing is guessed.

Templates test for keys being there, so nulls are dropped; they differ in what a missing content and a call's arguments must look
like (`wants`). Arguments keep their order and the digits of their numbers, whichever way they came and are handed over; where a
template writes a number in another way all the same, the check for lost content finds it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inference.tokens.errors import TokensError
from inference.tokens.numbers import as_spelled, as_whole, to_json
from inference.tokens.rendering.templates import Message, Prepared
from inference.tokens.rendering.wants import Wants
from inference.tokens.rendering.warning import RenderWarning

REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
UNREAD = object()
MAX_DEPTH = 100
"""Deepest nesting of a call or a tool, as for uploads: far above real data, far below what templates can walk"""


class Ready(NamedTuple):
    """What goes into the template, and what was done to make it so."""

    prepared: Prepared
    warnings: list[RenderWarning]


def prepare(
    wanted: Wants,
    messages: Sequence[Mapping[str, Any]],
    tools: Any,
    role_map: Mapping[str, str] | None = None,
) -> Ready:
    """Messages and tools ready for a template that wants them so.

    `role_map` gives roles another name ({"developer": "system"}), in the messages where they stand.

    Raises `TokensError` with the field at fault: `bad_message`, `unsupported_part`, `bad_tools`.
    """
    warnings: list[RenderWarning] = []
    if not messages:
        raise TokensError("bad_message", "There are no messages to render.", "messages")
    ready = [_message(wanted, message, index, warnings) for index, message in enumerate(messages)]
    for index, message in enumerate(ready):
        if role_map and message["role"] in role_map:
            was, message["role"] = message["role"], role_map[message["role"]]
            told = f"messages[{index}] has the role {was} and was rendered as {message['role']}, as the role map says."
            warnings.append(RenderWarning("role_mapped", told, index))
    return Ready(Prepared(ready, _tools(tools, warnings)), warnings)


def _message(wanted: Wants, given: Mapping[str, Any], index: int, warnings: list[RenderWarning]) -> Message:
    at = f"messages[{index}]"
    if not isinstance(given, Mapping) or not isinstance(given.get("role"), str) or not given["role"]:
        raise TokensError("bad_message", f"{at} has no role.", f"{at}.role")
    message = {key: value for key, value in given.items() if value is not None}
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = _joined(content, index, warnings)
    elif content is not None and not isinstance(content, str):
        raise TokensError("bad_message", f"{at}.content is {type(content).__name__}, not text.", f"{at}.content")
    elif content is None:
        message["content"] = ""
    if message["content"] == "" and wanted.null_content and message.get("tool_calls"):
        message["content"] = None  # the same nothing, as this template asks for it before it writes a call
    reasoning = next((message[key] for key in REASONING_KEYS if isinstance(message.get(key), str)), None)
    if reasoning is not None:  # under both names that templates read
        message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
    else:
        message["tool_calls"] = _calls(wanted, message["tool_calls"], index, warnings)
    return message


def _joined(parts: list[Any], index: int, warnings: list[RenderWarning]) -> str:
    texts: list[str] = []
    at = f"messages[{index}].content"
    for place, part in enumerate(parts):
        kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
        text = part if isinstance(part, str) else part.get("text") if kind in TEXT_PARTS else None
        if not isinstance(text, str):
            where = f"{at}[{place}]"
            cure = "only text can be rendered here, other parts need a vision or sound run"
            raise TokensError("unsupported_part", f"{where} is of type {kind}; {cure}.", where)
        texts.append(text)
    if len(texts) > 1:
        told = f"The {len(texts)} text parts of {at} were joined by line ends."
        warnings.append(RenderWarning("parts_joined", told, index))
    return "\n".join(texts)


def _calls(wanted: Wants, calls: Any, index: int, warnings: list[RenderWarning]) -> list[dict[str, Any]]:
    at = f"messages[{index}].tool_calls"
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        raise TokensError("bad_message", f"{at} is not a list of calls.", at)
    ready = []
    for place, call in enumerate(calls):
        where = f"{at}[{place}]"
        inner = call.get("function", call)
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
            raise TokensError("bad_message", f"{where} has no function name.", where)
        function = {key: value for key, value in inner.items() if value is not None}
        given = function.get("arguments", {})
        if _is_deep(call):
            raise TokensError(
                "bad_message", f"{where} is nested too deep; at most {MAX_DEPTH} levels are taken.", where
            )
        value = read_arguments(given)
        if not isinstance(value, dict):
            as_text = isinstance(given, str) or wanted.text_arguments
            more = "; the template gets them as text" if as_text else ""
            told = f"The arguments of {where} are not a JSON object{more}."
            warnings.append(RenderWarning("arguments_not_json", told, index))
        function["arguments"] = _arguments(wanted, given, value)
        whole = {key: value for key, value in call.items() if value is not None} if "function" in call else {}
        ready.append({"type": "function", **whole, "function": function})
    return ready


def _arguments(wanted: Wants, given: Any, value: Any) -> Any:
    if wanted.text_arguments:
        return given if isinstance(given, str) else to_json(given, ensure_ascii=False)
    return value if isinstance(value, dict) else given


def read_arguments(given: Any) -> Any:
    """The value of arguments given as text; of what is no JSON an object that is nothing else."""
    if not isinstance(given, str):
        return given
    try:
        value = json.loads(given, parse_float=as_spelled, parse_int=as_whole) if given.strip() else {}
    except (ValueError, RecursionError):
        return UNREAD
    return UNREAD if _is_deep(value) else value


def _is_deep(value: Any) -> bool:
    """Walks without recursion: depth may be a stranger's choice."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for held in level
            if isinstance(held, dict | list)
            for item in (held.values() if isinstance(held, dict) else held)
        ]
        if not level:
            return False
    return True


def _tools(given: Any, warnings: list[RenderWarning]) -> list[dict[str, Any]] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given, parse_float=as_spelled, parse_int=as_whole)
        except (ValueError, RecursionError) as error:
            raise TokensError("bad_tools", f"tools is a text that is not JSON: {error}", "tools") from error
    if not given:
        return None
    if not isinstance(given, list):
        raise TokensError("bad_tools", f"tools is a {type(given).__name__}, not a list of tools.", "tools")
    ready = []
    for index, tool in enumerate(given):
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or not inner["name"]:
            raise TokensError("bad_tools", f"tools[{index}] has no function name.", f"tools[{index}]")
        if _is_deep(tool):
            told = f"tools[{index}] is nested too deep; at most {MAX_DEPTH} levels are taken."
            raise TokensError("bad_tools", told, f"tools[{index}]")
        if "function" not in tool:
            warnings.append(
                RenderWarning("tools_wrapped", f"tools[{index}] came without its function wrapper; it was wrapped.")
            )
            inner = {key: value for key, value in tool.items() if key != "type"}
            tool = {"type": "function", "function": inner}  # noqa: PLW2901  (the same tool, in the wrapper templates expect)
        ready.append(dict(tool))
    return ready
