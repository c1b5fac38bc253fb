"""The `gpt-oss` parser: harmony's channels read from text, with what it drops and holds back on the way.

It waits for the end of a message that never came: such a message, and all that follows it, is in neither field, analysis alone
excepted. Text without any sign of a channel waits for one, and so is dropped whole.
"""

import re
from typing import Literal, NamedTuple

from inference.tokens.sglang.spans import Field, Span, held_back, trimmed

_MARKERS = {f"<|{name}|>": name for name in ("start", "channel", "message", "constrain", "end", "call", "return")}
_LONGEST = max(map(len, _MARKERS))
_KNOWN = re.compile("|".join(map(re.escape, _MARKERS)))
_FILLER = "commentary"
# Written so that a run of whitespace is gone through once, and not again from each place in it.
_SIGN = re.compile(r"(?:\A|(?<=\s))(?:assistant\s*+)?(?:analysis|commentary|assistantfinal)", re.IGNORECASE)
_HEAD = re.compile(r"\s*+(?:assistant\s*+)?(analysis|commentary)", re.IGNORECASE)
_ANY_HEAD = re.compile(r"(?:\A|(?<=\s))(?:assistant\s*+)?(?:analysis|commentary)", re.IGNORECASE)
_FINAL = re.compile(r"assistantfinal", re.IGNORECASE)
_FINAL_HEAD = re.compile(r"\s*+assistantfinal", re.IGNORECASE)


class _Lexeme(NamedTuple):
    """Characters [start, end): a marker by its name, or `text`."""

    name: str
    start: int
    end: int


class _Event(NamedTuple):
    """One part of the answer as the parser gives it out."""

    kind: Literal["reasoning", "normal", "call"]
    ranges: tuple[tuple[int, int], ...]


def read_harmony(text: str) -> list[Span]:
    """The spans of `gpt-oss`'s two fields; calls stay in the content with their markers."""
    if "<|channel|>" in text or "<|start|>" in text:
        events = _Messages(text).read()
    elif _SIGN.search(text):
        events = _read_words(text)
    else:
        return []
    return _without_filler(text, events)


def _without_filler(text: str, events: list[_Event]) -> list[Span]:
    """After a call the word "commentary" is noise, in as many pieces as it comes; so is whitespace before it."""
    spans: list[Span] = []
    expecting, seen = False, ""
    call_last = text.rstrip().endswith("<|call|>")
    for event in events:
        if event.kind == "normal" and (expecting or seen):
            seen += "".join([text[start:end] for start, end in event.ranges]).strip().lower()
            if seen == _FILLER:
                expecting, seen = False, ""
                continue
            if _FILLER.startswith(seen):
                continue
            expecting, seen = False, ""
        if event.kind == "call":
            expecting, seen = True, ""
        elif call_last:
            expecting = True
        field: Field = "reasoning" if event.kind == "reasoning" else "content"
        spans += [Span(field, start, end) for start, end in event.ranges]
    return spans


def _lexemes(text: str) -> list[_Lexeme]:
    found: list[_Lexeme] = []
    at, strange, closes = 0, False, True
    while at < len(text):
        place = text.find("<|", at)
        if place < 0:
            break
        if place > at:
            found.append(_Lexeme("text", at, place))
        known = _KNOWN.match(text, place)
        if known:
            at = known.end()
            found.append(_Lexeme(_MARKERS[known[0]], place, at))
            continue
        rest = text[place : place + _LONGEST]
        if len(text) - place < _LONGEST and any(marker.startswith(rest) for marker in _MARKERS):
            found.append(_Lexeme("text", place, len(text)))
            return _closed(text, found, strange=strange)
        strange, at = True, place + 2
        found.append(_Lexeme("text", place, at))
        close = text.find("|>", at) if closes else -1
        closes = close >= 0
        if closes:  # an unknown marker, with the text behind it
            following = text.find("<|", close + 2)
            following = len(text) if following < 0 else following
            found.append(_Lexeme("text", at, following))
            at = following
    if at < len(text):
        found.append(_Lexeme("text", at, len(text)))
        return found
    return _closed(text, found, strange=strange)


def _closed(text: str, found: list[_Lexeme], *, strange: bool) -> list[_Lexeme]:
    """Behind an unknown marker, text that ends with a known one has an empty text after it, so that nothing waits for more."""
    if strange and text.endswith(tuple(_MARKERS)):
        found.append(_Lexeme("text", len(text), len(text)))
    return found


class _Messages:
    """One pass over text that has markers."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = _lexemes(text)

    def read(self) -> list[_Event]:
        events: list[_Event] = []
        at = 0
        while at < len(self.parts):
            part = self.parts[at]
            if part.name in {"start", "channel"}:
                event, at = self.message(at)
                if event is not None:
                    events.append(event)
            elif part.name != "text":
                at += 1
            elif at == len(self.parts) - 1:
                events.append(_Event("normal", ((part.start, held_back(self.text, part.start, tuple(_MARKERS))),)))
                break
            else:
                said = self.text[part.start : part.end].strip()
                filler = at > 0 and self.parts[at - 1].name == "call" and said.lower() == _FILLER
                if not filler and said not in _MARKERS:
                    events.append(_Event("normal", ((part.start, part.end),)))
                at += 1
        return events

    def next(self, at: int, *names: str) -> int | None:
        """The place of the first of these markers from `at` on."""
        return next((place for place in range(at, len(self.parts)) if self.parts[place].name in names), None)

    def message(self, first: int) -> tuple[_Event | None, int]:
        """The message that begins at `first`, and where the next begins; past the end where the parser waits for more."""
        never = len(self.parts)
        at = first + (self.parts[first].name == "start")
        body = self.next(at, "message")
        if body is None:
            return None, never
        start = self.parts[body].end
        header = next((place for place in range(at, body) if self.parts[place].name == "channel"), None)
        ends: tuple[str, ...] = ("end", "call", "return")
        channel = ""
        if header is not None:
            ends, channel = ("end", "call"), self.text[self.parts[header].end : self.parts[body].start].strip().lower()
        if channel.startswith("final"):
            return self.final(body)
        analysis = channel.startswith("analysis")
        readable = header is None or analysis or channel.startswith("commentary")
        end = self.next(body, *ends) if readable else None
        if end is None:
            return (_Event("reasoning", ((start, len(self.text)),)) if analysis else None), never
        if header is not None and self.parts[end].name == "call":
            return _Event("call", ((self.parts[first].start, self.parts[end].end),)), end + 1
        return _Event("reasoning" if analysis else "normal", ((start, self.parts[end].start),)), end + 1

    def final(self, body: int) -> tuple[_Event, int]:
        """The final message, which may lack its end; text behind the end is part of it."""
        start = self.parts[body].end
        end = self.next(body, "return")
        if end is None:
            return _Event("normal", ((start, len(self.text)),)), len(self.parts)
        said = (start, self.parts[end].start)
        behind = self.parts[end + 1] if end + 1 < len(self.parts) else None
        if behind is not None and behind.name == "text":
            return _Event("normal", (said, (behind.start, behind.end))), end + 2
        return _Event("normal", (said,)), end + 1


def _read_words(text: str) -> list[_Event]:
    """Text whose special tokens were dropped: the channels' names stand in it as words."""
    head = _HEAD.match(text)
    kind: Literal["reasoning", "normal"] = "reasoning" if head and head[1].lower() == "analysis" else "normal"
    final = _FINAL.search(text, head.end()) if head else None
    if head and final:
        before, behind = trimmed(text, head.end(), final.start()), trimmed(text, final.end(), len(text))
        return [_Event(kind, (before,)), _Event("normal", (behind,))]
    lower = text.lower()
    if _ANY_HEAD.search(text) and "assistantfin" in lower and "assistantfinal" not in lower:
        return []
    final = _FINAL_HEAD.match(text)
    if final:
        return [_Event("normal", (trimmed(text, final.end(), len(text)),))]
    if head:
        end = held_back(text, head.end(), ("assistantfinal",))
        whole = kind == "reasoning" or end < len(text)
        return [_Event(kind, ((head.end(), end) if whole else trimmed(text, head.end(), end),))]
    return [_Event("normal", ((0, held_back(text, 0, ("analysis", "commentary", "assistantfinal"))),))]
