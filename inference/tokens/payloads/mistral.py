"""Mistral and Magistral: `NAME[CALL_ID]id[ARGS]{…}`, or, in older vocabularies, a JSON list of calls."""

import re
from dataclasses import replace
from typing import NamedTuple

from inference.tokens.payloads.arguments import read_arguments
from inference.tokens.payloads.jsoncalls import read_json_calls
from inference.tokens.payloads.jsontext import JsonError, read_value
from inference.tokens.payloads.payload import CallError, Payload, ToolCall
from inference.tokens.payloads.wording import first_word, is_name, shown

_ARGS, _CALL_ID = "[ARGS]", "[CALL_ID]"
_TAG = re.compile(r"\[(?:ARGS|CALL_ID)\]")
_NAME_MARK = re.compile(r"[\w.-]")
_SPACED = re.compile(r"[\s;,]*+")


class _Header(NamedTuple):
    """A call's header text[start:end], its name's text, and where its arguments begin."""

    start: int
    name: str
    body: int


def read_mistral(payload: Payload) -> tuple[ToolCall, ...]:
    """The calls after one call marker: one, or all of a list. Without `[ARGS]` the name ends where the first brace begins."""
    text = payload.text
    if text.lstrip()[:1] in {"[", "{"} and not _begins_with_tag(payload):
        return read_json_calls(text)
    tags = _tags(payload)
    bodies = [end for _, end, spelled in tags if spelled == _ARGS]
    if not bodies:
        return (_without_tag(payload),)
    return tuple(_read(payload, tags, bodies))


def _tags(payload: Payload) -> list[tuple[int, int, str]]:
    if payload.marks is not None:
        return [mark for mark in payload.marks if mark[2] in {_ARGS, _CALL_ID}]
    return [(match.start(), match.end(), match[0]) for match in _TAG.finditer(payload.text)]


def _begins_with_tag(payload: Payload) -> bool:
    tags = _tags(payload)
    return bool(tags) and tags[0][0] == first_word(payload.text, 0)


def _read(payload: Payload, tags: list[tuple[int, int, str]], bodies: list[int]) -> list[ToolCall]:
    """One call per `[ARGS]`; what stands between one's arguments and the next's tags is the next one's name."""
    text = payload.text
    calls: list[ToolCall] = []
    start, place = 0, 0
    for number, body in enumerate(bodies):
        head_end = body - len(_ARGS)
        while place < len(tags) and tags[place][1] != body:
            if tags[place][0] >= start and tags[place][2] == _CALL_ID:
                head_end = min(head_end, tags[place][0])
            place += 1
        limit = len(text)
        if number + 1 < len(bodies):  # the next header begins before the first of its own tags
            limit = tags[place + 1][0]
        end = _end_of_arguments(text, body, limit, last=number + 1 == len(bodies))
        calls.append(_made(payload, text[start:head_end], start, body, end))
        start = end
    return calls


def _end_of_arguments(text: str, body: int, limit: int, *, last: bool) -> int:
    """Where the arguments from `body` end: after their JSON; where that breaks, before the word that the next tag follows."""
    if last:
        return limit
    try:
        return body + read_value(text[body:limit]).end
    except JsonError:
        end = body + len(text[body:limit].rstrip())
        while end > body and _NAME_MARK.match(text, end - 1):
            end -= 1
        return end


def _made(payload: Payload, header: str, start: int, body: int, end: int) -> ToolCall:
    spaced = _SPACED.match(header)
    name = header[spaced.end() if spaced else 0 :].strip()
    call = read_arguments(name, payload.text, body, end)
    if name in payload.tools or is_name(name):
        return call
    message = f"No tool name can be read from “{shown(name)}”." if name else "The call has no name."
    return replace(call, name=None, error=CallError("tool_name_unreadable", message, first_word(payload.text, start)))


def _without_tag(payload: Payload) -> ToolCall:
    text = payload.text
    brace = text.find("{")
    name = text[: max(brace, 0)].strip()
    if name in payload.tools or is_name(name):
        return read_arguments(
            name, text, brace, len(text), note="The token between the name and the arguments is missing."
        )
    message = f"No tool name can be read from “{shown(text.strip())}”." if text.strip() else "The call is empty."
    return ToolCall(
        None, text.strip(), CallError("tool_name_unreadable", message, first_word(text, 0) if text.strip() else 0)
    )
