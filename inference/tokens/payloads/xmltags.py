"""Calls written with tags: one tag around a call, one around each parameter, the values as bare text.

The families differ in how a tag is spelled (a `Grammar`), not in how the tags nest. Values are text to the letter: `<`, `&` and
entities in them stand for themselves. A parameter ends at the first closing tag; where another parameter begins before one, or
none comes, it was never closed.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, NamedTuple

from inference.tokens.payloads.arguments import read_arguments, repeated
from inference.tokens.payloads.jsontext import JsonError, JsonValue, RawText, read_whole
from inference.tokens.payloads.payload import CallError, Payload, ToolCall
from inference.tokens.payloads.wording import first_word, shown

Kind = Literal["call", "call_end", "parameter", "parameter_end"]
_ATTRIBUTE = re.compile(r"""(?<![\w-])(?P<key>[\w-]++)\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)')""")


@dataclass(frozen=True)
class Grammar:
    """How one family spells its tags.

    `tags` has a group for each `Kind`; those of `call` and `parameter` hold the name itself, or the tag's attributes.
    """

    tags: re.Pattern[str]
    attributes: bool
    """Whether the opening tags carry attributes (`name="…"`) rather than the name itself"""
    call_end: str
    parameter_end: str
    lines: bool = False
    """Whether a value stands on lines of its own: one newline before and one after it are not part of it"""
    typed: bool = False
    """Whether a parameter says by `string="true|false"` if its value is a text or JSON"""
    json_note: str | None = "The arguments are a JSON object in place of parameter tags."
    """The note on a JSON object in place of parameters; None where the family writes that itself"""


class Tag(NamedTuple):
    """A tag that acts: its place in the text, and what its opening says."""

    kind: Kind
    start: int
    end: int
    says: str


def find_tags(payload: Payload, grammar: Grammar, start: int = 0) -> list[Tag]:
    """The tags from `start` on, in order. Where the vocabulary has inner tokens, only those with one of them in them."""
    found: list[Tag] = []
    starts = None if payload.marks is None else [mark[0] for mark in payload.marks]
    for match in grammar.tags.finditer(payload.text, start):
        if starts is not None:
            at = bisect_left(starts, match.start())
            if at == len(starts) or starts[at] >= match.end():
                continue
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the pattern's groups are the kinds
        found.append(Tag(kind, match.start(), match.end(), match[match.lastgroup or 0]))
    return found


def read_xml(payload: Payload, grammar: Grammar, start: int = 0) -> tuple[ToolCall, ...]:
    """The calls from `start` on; at least one entry. Text outside of all calls is an entry of its own, without a name."""
    tags = find_tags(payload, grammar, start)
    calls: list[ToolCall] = []
    at, place = start, 0
    while place < len(tags):
        if tags[place].kind == "call":
            _outside(calls, payload.text, at, tags[place].start)
            reading = _Call(payload.text, grammar, tags, place)
            calls.append(reading.read())
            at, place = reading.at, reading.place
        else:
            place += 1
    _outside(calls, payload.text, at, len(payload.text))
    if not calls:
        calls.append(ToolCall(None, "", CallError("tool_name_unreadable", "The call is empty.", start)))
    return tuple(calls)


def _outside(calls: list[ToolCall], text: str, start: int, end: int) -> None:
    stray = text[start:end].strip()
    if stray:
        begin = first_word(text, start, end)
        error = CallError("tool_name_unreadable", f"No call holds this text: “{shown(stray)}”.", begin)
        calls.append(ToolCall(None, stray, error, span=(begin, begin + len(stray))))


class _Call:
    """Reads one call from its opening tag on; afterwards `at` and `place` are where reading goes on."""

    def __init__(self, text: str, grammar: Grammar, tags: list[Tag], place: int) -> None:
        self.text = text
        self.grammar = grammar
        self.tags = tags
        self.opening = tags[place]
        self.place = place + 1
        self.at = self.opening.end
        self.error: CallError | None = None
        self.broken = False
        self.values: dict[str, JsonValue] = {}
        self.places: dict[str, int] = {}

    def read(self) -> ToolCall:
        name = self._name(self.opening)
        if name is None:
            self._fail("The call has no name.", self.opening.start, "tool_name_unreadable")
        if self.grammar.attributes and self.opening.says.rstrip().endswith("/"):
            return self._made(name, self.at)
        as_json = self._json(name)
        if as_json is not None:
            return as_json
        while self.place < len(self.tags):
            tag = self.tags[self.place]
            if tag.kind == "call":
                self._between(tag.start)
                self._fail(
                    f"The call is not closed before the next begins: {self.grammar.call_end} is missing.", tag.start
                )
                self.at = tag.start
                return self._made(name, tag.start)
            self._between(tag.start)
            if tag.kind == "call_end":
                self.place, self.at = self.place + 1, tag.end
                return self._made(name, tag.start)
            if tag.kind == "parameter":
                self._parameter(tag)
            else:
                self._fail(f"{self.grammar.parameter_end} closes nothing.", tag.start)
                self.place, self.at = self.place + 1, tag.end
        end = len(self.text)
        self._between(end)
        self._fail(f"The call is not closed: {self.grammar.call_end} is missing.", end)
        self.at = end
        return self._made(name, end)

    def _json(self, name: str | None) -> ToolCall | None:
        """The call with a JSON object in place of parameters, None where it is not written so."""
        following = self.tags[self.place] if self.place < len(self.tags) else None
        end = following.start if following else len(self.text)
        begin = first_word(self.text, self.at, end)
        if self.text[begin : begin + 1] != "{" or (following and following.kind.startswith("parameter")):
            return None
        call = read_arguments(name, self.text, self.at, end, note=self.grammar.json_note)
        if following and following.kind == "call_end":
            self.place, self.at = self.place + 1, following.end
        else:
            self.at = end
            self._fail(f"The call is not closed: {self.grammar.call_end} is missing.", end)
        first = self.error if name is None else call.error or self.error
        value = call.value if self.error is None else None
        return ToolCall(name, call.arguments, first, value, call.note, call.span)

    def _parameter(self, tag: Tag) -> None:
        key = self._name(tag)
        if key is None:
            self._fail("A parameter has no name.", tag.start)
        elif key in self.values:
            self.error = self.error or repeated(key, tag.start)
        close = self.place + 1
        while close < len(self.tags) and not self.tags[close].kind.startswith("parameter"):
            close += 1
        if close == len(self.tags) or self.tags[close].kind == "parameter":
            self.place += 1
            following = self.tags[self.place].start if self.place < len(self.tags) else len(self.text)
            shown_key = f" “{shown(key)}”" if key else ""
            self._fail(f"The parameter{shown_key} is not closed: {self.grammar.parameter_end} is missing.", following)
            self.at = following
            return
        closing = self.tags[close]
        self.place, self.at = close + 1, closing.end
        if key is not None:
            self._value(key, tag, closing.start)

    def _value(self, key: str, tag: Tag, end: int) -> None:
        start = tag.end
        raw = self.text[start:end]
        if self.grammar.lines:
            kept = raw.removeprefix("\n")
            start += len(raw) - len(kept)
            raw = kept.removesuffix("\n")
        self.places[key] = start
        self.values[key] = RawText(raw)
        if self.grammar.typed:
            self.values[key] = self._typed(key, tag, raw, start)

    def _typed(self, key: str, tag: Tag, raw: str, start: int) -> JsonValue:
        kind = _attributes(tag.says).get("string")
        if kind == "true":
            return raw
        if kind != "false":
            self._fail(
                f'The parameter “{shown(key)}” does not say whether it is a text (string="true|false").', tag.start
            )
            return RawText(raw)
        try:
            return read_whole(raw).value
        except JsonError as error:
            message = f"The parameter “{shown(key)}” is not JSON as its tag says: {error.message}."
            self._fail(message, start + error.position)
            return None

    def _name(self, tag: Tag) -> str | None:
        name = _attributes(tag.says).get("name", "") if self.grammar.attributes else tag.says
        return name.strip() or None

    def _between(self, end: int) -> None:
        """Nothing but whitespace belongs between the tags of a call."""
        if not self.broken and self.text[self.at : end].strip():
            self._fail("Text stands between the tags of the call.", first_word(self.text, self.at, end))

    def _fail(self, message: str, position: int, code: str = "tool_arguments_invalid") -> None:
        self.broken = True
        self.error = self.error or CallError(code, message, position)

    def _made(self, name: str | None, end: int) -> ToolCall:
        raw = self.text[self.opening.end : end]
        start = min(self.opening.end + len(raw) - len(raw.lstrip()), end)
        raw = raw.strip()
        value = None if self.broken else self.values
        return ToolCall(name, raw, self.error, value, None, (start, start + len(raw)), self.places)


def _attributes(says: str) -> dict[str, str]:
    return {
        match["key"]: match["double"] if match["double"] is not None else match["single"]
        for match in _ATTRIBUTE.finditer(says)
    }
