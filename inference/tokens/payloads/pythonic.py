"""Calls written as Python: `[f(a=1), g(b="x")]`, or one call without the list."""

import re
from dataclasses import replace

from inference.tokens.payloads.arguments import repeated
from inference.tokens.payloads.jsontext import JsonError, JsonValue
from inference.tokens.payloads.literals import end_of_string, read_literal, read_word, skip
from inference.tokens.payloads.payload import CallError, ToolCall
from inference.tokens.payloads.wording import shown

_NAME = re.compile(r"[^\W\d][\w.-]*+")
_BRACKET = re.compile(r"[\[\](){}\"']")
_OPENING = frozenset("[({")
_JOINTS = {True: {","}, False: {",", ";"}}
_MOST_UNCLOSED = 100
_BUILTIN_CALL = ".call"
"""Llama 3.1 calls its built-in tools as `brave_search.call(query="…")`"""


def looks_pythonic(text: str, start: int = 0) -> bool:
    """Whether a call in Python begins here: a name and a parenthesis, in a list or bare."""
    at = skip(text, start)
    if text[at : at + 1] == "[":
        at = skip(text, at + 1)
    name = _NAME.match(text, at)
    return name is not None and text[name.end() : name.end() + 1] == "("


def read_pythonic(text: str, start: int = 0) -> tuple[ToolCall, ...]:
    """The calls in text[start:]; at least one. A call that breaks does not take those after it along, if its ) is found."""
    at = skip(text, start)
    listed = text[at : at + 1] == "["
    at = skip(text, at + 1) if listed else at
    calls: list[ToolCall] = []
    while True:
        name = _NAME.match(text, at)
        if name is None or text[name.end() : name.end() + 1] != "(":
            calls.append(_fault(text, at, "A call such as f(a=1) is wanted here."))
            return tuple(calls)
        call, end = _Call(text, name[0], name.end()).read()
        if not listed and name[0].endswith(_BUILTIN_CALL):
            call = replace(call, name=name[0].removesuffix(_BUILTIN_CALL))
        calls.append(call)
        if end < 0:
            return tuple(calls)
        at = skip(text, end)
        if text[at : at + 1] in _JOINTS[listed]:
            at = skip(text, at + 1)
            if at < len(text) and text[at] != "]":
                continue
        calls += _ending(text, at, listed=listed)
        return tuple(calls)


def _ending(text: str, at: int, *, listed: bool) -> list[ToolCall]:
    """What is wrong with the end of the calls, if anything is."""
    if listed:
        if text[at : at + 1] != "]":
            return [_fault(text, at, "The list of calls is not closed.")]
        at = skip(text, at + 1)
    return [_fault(text, at, "Text follows the calls.")] if at < len(text) else []


def _fault(text: str, at: int, message: str) -> ToolCall:
    rest = text[at:].rstrip()
    return ToolCall(None, rest, CallError("tool_name_unreadable", message, at), span=(at, at + len(rest)))


class _Call:
    """Reads one call from its opening parenthesis on."""

    def __init__(self, text: str, name: str, opening: int) -> None:
        self.text = text
        self.name = name
        self.start = opening + 1
        self.opening = opening
        self.values: dict[str, JsonValue] = {}
        self.places: dict[str, int] = {}
        self.error: CallError | None = None

    def read(self) -> tuple[ToolCall, int]:
        """The call, and where it ends; -1 where its end cannot be found."""
        try:
            end = self._arguments()
        except JsonError as error:
            told = CallError(
                "tool_arguments_invalid", f"The arguments are not Python literals: {error.message}.", error.position
            )
            close = self._closing()
            stop = close if close >= 0 else len(self.text)
            return self._made(stop, self.error or told, None), close + 1 if close >= 0 else -1
        return self._made(end, self.error, self.values), end + 1

    def _made(self, end: int, error: CallError | None, value: dict[str, JsonValue] | None) -> ToolCall:
        raw = self.text[self.start : end]
        begin = min(self.start + len(raw) - len(raw.lstrip()), end)
        raw = raw.strip()
        return ToolCall(self.name, raw, error, value, None, (begin, begin + len(raw)), self.places)

    def _arguments(self) -> int:
        """Reads the arguments; where the closing parenthesis stands."""
        text, at = self.text, skip(self.text, self.start)
        while text[at : at + 1] != ")":
            key = read_word(text, at)
            after = skip(text, at + len(key))
            if not key or text[after : after + 1] != "=" or text[after + 1 : after + 2] == "=":
                raise JsonError("An argument has no name" if at < len(text) else "The call is not closed", at)
            found = read_literal(text, after + 1)
            if key in self.values:
                self.error = self.error or repeated(key, at)
            self.values[key], self.places[key] = found.value, found.start
            at = skip(text, found.end)
            if text[at : at + 1] == ",":
                at = skip(text, at + 1)
            elif text[at : at + 1] != ")":
                what = "A comma or ) is wanted" if at < len(text) else "The call is not closed"
                raise JsonError(f"{what} after “{shown(key)}”", at)
        return at

    def _closing(self) -> int:
        """Where the parenthesis that closes this call stands, brackets and strings inside it counted; -1 where none does."""
        depth, unclosed = 0, 0
        match = _BRACKET.search(self.text, self.opening)
        while match is not None and unclosed < _MOST_UNCLOSED:
            mark, at = match[0], match.end()
            if mark in {'"', "'"}:
                end = end_of_string(self.text, match.start())
                unclosed += end is None  # an apostrophe perhaps
                at = at if end is None else end
            else:
                depth += 1 if mark in _OPENING else -1
                if depth == 0:
                    return match.start()
            match = _BRACKET.search(self.text, at)
        return -1
