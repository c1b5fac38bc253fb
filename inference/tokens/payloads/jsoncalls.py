"""Calls written as JSON objects with `name` and `arguments` (`parameters` is read as well): one, a list, or one after another.

Where the JSON breaks, what was read before stays, and an object further on is a call again only if it reads as a whole one: a
bad sibling does not take the good ones with it, and no inner object passes for a call.
"""

import re
from dataclasses import replace

from inference.tokens.payloads.arguments import describe, judge
from inference.tokens.payloads.jsontext import (
    JsonError,
    Located,
    Repeating,
    read_value,
    repeated_key,
    scan_members,
    skip_space,
)
from inference.tokens.payloads.payload import CallError, ToolCall, noted
from inference.tokens.payloads.wording import is_whole

_CANDIDATE = re.compile(r'\{[ \t\r\n]*+"(?:name|id|type)"')
_SEPARATOR = re.compile(r"[\s,;]*+")
_ARGUMENTS = ("arguments", "parameters")
_MOST_RETRIES = 100
"""Each try after an error costs a look at the text before it; so many broken calls in one payload are enough to name"""


def read_json_calls(text: str, start: int = 0, *, several: str | None = None) -> tuple[ToolCall, ...]:
    """The calls in text[start:]; at least one entry, with its fault where nothing can be read.

    `several` is the note for objects one after another without a list, where the family does not write them so.
    """
    at = skip_space(text, start)
    if at == len(text):
        return (ToolCall(None, None, CallError("tool_json_invalid", "The call is empty.", start)),)
    inner = skip_space(text, at + 1)
    if text[at] == "[" and text[inner : inner + 1] != "]":
        return tuple(_Sequence(text, listed=True).read(inner))
    calls = tuple(_Sequence(text, listed=False).read(at))
    return noted(calls, several) if several and len(calls) > 1 else calls


class _Sequence:
    """Reads one object after another."""

    def __init__(self, text: str, *, listed: bool) -> None:
        self.text = text
        self.listed = listed
        self.calls: list[ToolCall] = []
        self.retries = 0

    def read(self, at: int) -> list[ToolCall]:
        while True:
            try:
                found = read_value(self.text, at)
            except JsonError as error:
                after = self._next_call(error.position)
                self.calls.append(_broken(self.text, at, after, error))
                if after == len(self.text):
                    return self.calls
                at = after
                continue
            self.calls.append(_read_object(self.text, found))
            at = self._after(found.end)
            if at < 0:
                return self.calls

    def _after(self, end: int) -> int:
        """Where the next object begins; -1 where there is none."""
        text, at = self.text, skip_space(self.text, end)
        if self.listed:
            if text[at : at + 1] == ",":
                return at + 1
            if at == len(text):
                error = CallError("tool_json_invalid", "The list of calls is not closed.", at)
                self.calls.append(ToolCall(None, None, error))
                return -1
            if text[at] != "]":
                return self._skip("A comma is missing in the list", at)
            self.listed = False
            at = skip_space(text, at + 1)
        if at == len(text):
            return -1
        separated = _SEPARATOR.match(text, at)
        following = separated.end() if separated else at
        if following == len(text):
            return -1  # a separator with nothing after it
        return following if text[following] == "{" else self._skip("Text follows the JSON value", at)

    def _skip(self, message: str, at: int) -> int:
        """Holds what stands at `at` against the call before it, and goes on with the next whole call; -1 where none is."""
        last = self.calls[-1]
        if last.error is None:
            error = CallError("tool_json_invalid", f"The call is not JSON: {message}.", at)
            self.calls[-1] = replace(last, error=error, value=None)
        after = self._next_call(at)
        return after if after < len(self.text) else -1

    def _next_call(self, start: int) -> int:
        """Where the next whole call begins, at or after `start`; the end where there is none."""
        for match in _CANDIDATE.finditer(self.text, start):
            if self.retries == _MOST_RETRIES:
                break
            self.retries += 1
            try:
                found = read_value(self.text, match.start())
            except JsonError:
                continue
            if _read_object(self.text, found).valid:
                return match.start()
        return len(self.text)


def _broken(text: str, start: int, end: int, error: JsonError) -> ToolCall:
    """A call whose JSON breaks: its name where that was read; its arguments, to their end or, if they broke, to the call's."""
    if end < len(text):
        end = len(text[:end].rstrip(" \t\r\n,;"))
    error_at = CallError("tool_json_invalid", f"The call is not JSON: {error.message}.", error.position)
    begin = skip_space(text, start)
    if text[begin : begin + 1] != "{":
        return ToolCall(None, None, error_at)
    name, span = None, None
    for member in scan_members(text, begin):
        value = member.found.value if member.found else None
        if member.key == "name" and type(value) is str and value.strip() and is_whole(value):
            name = value
        elif member.key == "arguments" or (member.key == "parameters" and span is None):
            stop = member.found.end if member.found else end
            span = (min(member.start, stop), stop)
    arguments = text[span[0] : span[1]] if span else None
    return ToolCall(name, arguments, error_at, span=span)


def _read_object(text: str, found: Located) -> ToolCall:
    if not isinstance(found.value, dict):
        message = f"The call is {describe(found.value)}, not an object with a name and arguments."
        return ToolCall(None, None, CallError("tool_name_unreadable", message, found.start))
    members = {member.key: member.found for member in scan_members(text, found.start) if member.found}
    given = members.get("name")
    name = None
    if given is not None and type(given.value) is str and given.value.strip() and is_whole(given.value):
        name = given.value
    arguments = members.get("arguments") or members.get("parameters")
    twice = _given_twice(text, found)
    if arguments is None:
        message = "The call has no arguments." if name else "The call has neither a name nor arguments."
        code = "tool_arguments_invalid" if name else "tool_name_unreadable"
        return ToolCall(name, None, CallError(code, message, found.start))
    raw = ToolCall(name, text[arguments.start : arguments.end], span=(arguments.start, arguments.end))
    call = judge(raw, arguments.value)
    if name is None:
        at = given.start if given is not None else found.start
        return replace(call, error=CallError("tool_name_unreadable", "The call has no name that is a text.", at))
    return replace(call, error=twice) if twice is not None and call.valid else call


def _given_twice(text: str, found: Located) -> CallError | None:
    """A name or arguments that the call gives more than once: which of them is meant, nobody can tell."""
    if isinstance(found.value, Repeating):
        again = repeated_key(text, found.start)
        if again is not None and again[0] in {"name", *_ARGUMENTS}:
            message = f"The call gives its {again[0]} more than once; the last one counts."
            return CallError("tool_arguments_invalid", message, again[1])
    if isinstance(found.value, dict) and all(key in found.value for key in _ARGUMENTS):
        at = next(member.at for member in scan_members(text, found.start) if member.key == "parameters")
        message = "The call gives both arguments and parameters; the arguments count."
        return CallError("tool_arguments_invalid", message, at)
    return None
