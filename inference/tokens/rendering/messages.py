"""Messages and tools as a chat template wants them. Whatever is changed on the way is said; nothing is guessed.

Templates test for keys being there, so nulls are dropped; families differ in what a missing content and a call's arguments
must look like, which their declarations say. Arguments keep their order and the digits of their numbers, whichever way they
came and are handed over; where a template writes a number in another way all the same, the check for lost content finds it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.numbers import SpelledFloat, as_spelled, as_whole, to_json

Message = dict[str, Any]
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
_JOINED_ARGUMENTS = re.compile(r"arguments['\"]?\]?\s*[+~]")
_NONE_TEST = re.compile(r"content['\"]?\]? is none")


class RenderWarning(NamedTuple):
    """Something about a render that a person should know: a flag code of the prompt, and a sentence."""

    code: str
    message: str


class Prepared(NamedTuple):
    """What goes into the template, and what was done to make it so."""

    messages: list[Message]
    tools: list[dict[str, Any]] | None
    warnings: list[RenderWarning]


class Wants(NamedTuple):
    """What a template wants of an assistant turn that calls: arguments as text, and null for a content that is missing."""

    text_arguments: bool
    null_content: bool


def wants(declared: TokenFormat, template: str) -> Wants:
    """The family's word, or, where it leaves that to the template, what the template's source shows."""
    as_text, as_null = declared.arguments_as, declared.null_content
    return Wants(
        as_text == "string" or (as_text == "by_template" and _JOINED_ARGUMENTS.search(template) is not None),
        as_null == "null" or (as_null == "by_template" and _NONE_TEST.search(template) is not None),
    )


def prepare(wanted: Wants, messages: Sequence[Mapping[str, Any]], tools: Any) -> Prepared:
    """Messages and tools ready for a template that wants them so.

    Raises `TokensError` with the field at fault: `bad_message`, `unsupported_part`, `bad_tools`.
    """
    warnings: list[RenderWarning] = []
    if not messages:
        raise TokensError("bad_message", "There are no messages to render.", "messages")
    ready = [_message(wanted, message, index, warnings) for index, message in enumerate(messages)]
    return Prepared(ready, _tools(tools, warnings), warnings)


def _message(wanted: Wants, given: Mapping[str, Any], index: int, warnings: list[RenderWarning]) -> Message:
    at = f"messages[{index}]"
    if not isinstance(given, Mapping) or not isinstance(given.get("role"), str) or not given["role"]:
        raise TokensError("bad_message", f"{at} has no role.", f"{at}.role")
    message = {key: value for key, value in given.items() if value is not None}
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = _joined(content, at, warnings)
    elif content is not None and not isinstance(content, str):
        raise TokensError("bad_message", f"{at}.content is {type(content).__name__}, not text.", f"{at}.content")
    elif content is None:
        message["content"] = ""
    if message["content"] == "" and wanted.null_content and message.get("tool_calls"):
        message["content"] = None  # the same nothing, as this family's template asks for it before it writes a call
    reasoning = next((message[key] for key in REASONING_KEYS if isinstance(message.get(key), str)), None)
    if reasoning is not None:  # under both names that templates read
        message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
    else:
        message["tool_calls"] = _calls(wanted, message["tool_calls"], at, warnings)
    return message


def _joined(parts: list[Any], at: str, warnings: list[RenderWarning]) -> str:
    texts: list[str] = []
    for place, part in enumerate(parts):
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            where = f"{at}.content[{place}]"
            raise TokensError("unsupported_part", f"{where} is of type {kind}; only text can be rendered here.", where)
        texts.append(text)
    if len(texts) > 1:
        warnings.append(
            RenderWarning("parts_joined", f"The {len(texts)} text parts of {at}.content were joined without a break.")
        )
    return "".join(texts)


def _calls(wanted: Wants, calls: Any, at: str, warnings: list[RenderWarning]) -> list[dict[str, Any]]:
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        raise TokensError("bad_message", f"{at}.tool_calls is not a list of calls.", f"{at}.tool_calls")
    ready = []
    for place, call in enumerate(calls):
        where = f"{at}.tool_calls[{place}]"
        inner = call.get("function", call)
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
            raise TokensError("bad_message", f"{where} has no function name.", where)
        function = {key: value for key, value in inner.items() if value is not None}
        function["arguments"] = _arguments(wanted, function.get("arguments", {}), where, warnings)
        whole = {key: value for key, value in call.items() if value is not None} if "function" in call else {}
        ready.append({"type": "function", **whole, "function": function})
    return ready


def _arguments(wanted: Wants, given: Any, where: str, warnings: list[RenderWarning]) -> Any:
    if wanted.text_arguments:
        return given if isinstance(given, str) else to_json(given, ensure_ascii=False)
    if isinstance(given, dict):
        return given
    if not isinstance(given, str):
        warnings.append(RenderWarning("arguments_not_json", f"The arguments of {where} are not a JSON object."))
        return given
    try:
        value = json.loads(given, parse_float=as_spelled, parse_int=as_whole) if given.strip() else {}
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    message = f"The arguments of {where} are not a JSON object; the template gets them as text."
    warnings.append(RenderWarning("arguments_not_json", message))
    return given


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
        if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
            raise TokensError("bad_tools", f"tools[{index}] has no function name.", f"tools[{index}]")
        if "function" not in tool:
            warnings.append(
                RenderWarning("tools_wrapped", f"tools[{index}] came without its function wrapper; it was wrapped.")
            )
            inner = {key: value for key, value in tool.items() if key != "type"}
            tool = {"type": "function", "function": inner}  # noqa: PLW2901  (the same tool, in the wrapper templates expect)
        ready.append(dict(tool))
    return ready


def texts_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(where, text) of every text a template is given: contents, reasoning, names and argument values of calls."""
    for index, message in enumerate(messages):
        for key in ("content", "reasoning_content"):
            if isinstance(message.get(key), str):
                yield f"messages[{index}].{key}", message[key]
        for place, call in enumerate(message.get("tool_calls") or ()):
            where = f"messages[{index}].tool_calls[{place}]"
            yield f"{where}.name", call["function"]["name"]
            yield from _leaves(call["function"]["arguments"], f"{where}.arguments")


def _leaves(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{where}.{key}", str(key)
            yield from _leaves(item, f"{where}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{where}[{place}]")
    elif isinstance(value, str):
        yield where, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield where, value.spelling if isinstance(value, SpelledFloat) else json.dumps(value)
