"""GLM and Hunyuan: the tool's name, then pairs of `<arg_key>` and `<arg_value>`, the values as bare text."""

import re
from typing import Literal, NamedTuple

from inference.tokens.payloads.arguments import repeated
from inference.tokens.payloads.jsoncalls import read_json_calls
from inference.tokens.payloads.jsontext import JsonValue, RawText
from inference.tokens.payloads.payload import CallError, Payload, ToolCall, noted
from inference.tokens.payloads.wording import first_word, is_name, shown

# Hunyuan's tokens may carry a suffix that all of them share, such as <arg_key:opensource>.
_TAG = re.compile(r"<(?P<kind>/?(?:arg_key|arg_value)|tool_sep)(?::[\w.-]++)?>")
_ORDER = ("arg_key", "/arg_key", "arg_value", "/arg_value")
_KEY_END, _VALUE_END = 1, 3


class _Tag(NamedTuple):
    kind: str
    start: int
    end: int


def read_glm(payload: Payload) -> tuple[ToolCall, ...]:
    """NAME and its pairs, with or without newlines between them; a JSON object as Hermes writes calls is read too, with a note."""
    return _read(payload)


def read_hunyuan(payload: Payload) -> tuple[ToolCall, ...]:
    """NAME, `<tool_sep>` (newer models leave it out) and the pairs; a JSON object is read too, with a note."""
    return _read(payload)


def _read(payload: Payload) -> tuple[ToolCall, ...]:
    text = payload.text
    if text.lstrip()[:1] in {"{", "["}:
        return noted(read_json_calls(text), "The call is a JSON object, as Hermes writes calls.")
    tags = _tags(payload)
    if len(payload.parts) > 1:
        name, at = payload.parts[0], payload.offset
        tags = [tag for tag in tags if tag.start >= at]
    elif tags and tags[0].kind == "tool_sep":
        name, at = text[: tags[0].start], tags[0].end
        tags = tags[1:]
    else:
        at = tags[0].start if tags else len(text)
        name = text[:at]
    pairs = _Pairs(text, at, tags)
    error = pairs.error
    name = name.strip()
    readable = name in payload.tools or is_name(name)
    if not readable:
        message = f"No tool name can be read from “{shown(name)}”." if name else "The call has no name."
        error = CallError("tool_name_unreadable", message, 0 if not name else first_word(text, 0))
    start = first_word(text, at)
    raw = text[start:].rstrip()
    span = (start, start + len(raw))
    return (ToolCall(name if readable else None, raw, error, pairs.values, None, span, pairs.places),)


def _tags(payload: Payload) -> list[_Tag]:
    if payload.marks is None:
        return [_Tag(match["kind"], match.start(), match.end()) for match in _TAG.finditer(payload.text)]
    found = ((_TAG.fullmatch(spelled), start, end) for start, end, spelled in payload.marks)
    return [_Tag(match["kind"], start, end) for match, start, end in found if match]


class _Pairs:
    """The pairs of one call: `values` by key (None where the pairs break), where each begins, and the first error."""

    def __init__(self, text: str, at: int, tags: list[_Tag]) -> None:
        self.text = text
        self.at = at
        self.error: CallError | None = None
        self.places: dict[str, int] = {}
        found: dict[str, JsonValue] = {}
        self.values: dict[str, JsonValue] | None = found
        self._key = ""
        step = 0
        for tag in tags:
            if tag.kind != _ORDER[step]:
                self._break(f"<{_ORDER[step]}> is wanted here, not <{tag.kind}>.", tag.start)
                return
            if not self._take(step, tag, found):
                return
            self.at, step = tag.end, (step + 1) % len(_ORDER)
        rest = first_word(text, self.at)
        if step:
            self._break(f"The call ends where <{_ORDER[step]}> is wanted.", len(text))
        elif rest < len(text):
            self._break("Text stands after the arguments.", rest)

    def _take(self, step: int, tag: _Tag, found: dict[str, JsonValue]) -> bool:
        """Takes what stands before a tag; false where it does not belong there."""
        between = self.text[self.at : tag.start]
        if step == _KEY_END:
            self._key = between.strip()
            if not self._key:
                return self._break("An argument has no name.", self.at)
            if self._key in found:
                self.error = self.error or repeated(self._key, self.at)
        elif step == _VALUE_END:
            found[self._key], self.places[self._key] = RawText(between), self.at
        elif between.strip():
            return self._break("Text stands between the tags of the call.", first_word(self.text, self.at))
        return True

    def _break(self, message: str, position: int) -> Literal[False]:
        self.error = self.error or CallError("tool_arguments_invalid", message, position)
        self.values = None
        return False
