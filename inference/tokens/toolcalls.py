"""A tool call segment as calls: decoded, split at the family's separator, and read by the family's grammar.

What was generated is what is given back: the raw arguments text, and where the first error is. Nothing is repaired.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import Ids, as_ids
from inference.tokens.payloads.payload import CallError, Mark, Payload, ToolCall
from inference.tokens.pieces import pieces
from inference.tokens.schema import tool_schemas
from inference.tokens.tokenizer import Tokenizer

__all__ = [
    "CallError",
    "IdPlaces",
    "ToolCall",
    "first_call",
    "read_call",
    "read_calls",
    "read_calls_of",
    "read_payload",
    "token_at",
]
_CLOSERS = ("}", "]", ">")
_CONTINUES, _CONTINUATION = 0xC0, 0x80


def read_calls(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    ids: Sequence[int] | NDArray[np.integer[Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[ToolCall, ...]:
    """The calls in one `tool_call` segment: one, except where the grammar lets a payload hold several.

    `tools` are the prompt's; a name that is spelled loosely is read only where it leads to one of them.
    """
    return read_calls_of(bound, tokenizer, ids, frozenset(tool_schemas(tools)))


def read_calls_of(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    ids: Sequence[int] | NDArray[np.integer[Any]],
    tools: frozenset[str],
) -> tuple[ToolCall, ...]:
    """As `read_calls`, by the tools' names: for whoever reads many segments, since going through the tools costs more than one."""
    reader = bound.format.payload
    payload = read_payload(bound, tokenizer, as_ids(ids), tools)
    if reader is None:
        error = CallError("tool_name_unreadable", f"The format {bound.name} knows no tool calls.", 0)
        return (ToolCall(None, payload.text, error),)
    return reader(payload)


def read_payload(bound: BoundFormat, tokenizer: Tokenizer, ids: Ids, tools: frozenset[str] = frozenset()) -> Payload:
    """The segment's text with the places of its delimiters in it, each stretch between two of them decoded once.

    A delimiter begins and ends a character, so the stretches joined are the text of all the ids.
    """
    separator, inner = bound.separator_id, bound.inner_ids
    numbers: list[int] = ids.tolist()
    read, cuts = tokenizer.vocabulary.join, _places(ids, [*inner] if separator is None else [separator, *inner])
    texts: list[str] = []
    marks: list[Mark] = []
    at = length = 0
    split: tuple[int, int] | None = None
    for cut in cuts:
        number = numbers[cut]
        before, own = read(numbers[at:cut]).decode("utf-8", "replace"), tokenizer.token_text(number)
        texts += before, own
        start, length = length + len(before), length + len(before) + len(own)
        at = cut + 1
        if number != separator:
            marks.append((start, length, inner[number]))
        elif split is None:
            split = (start, length)
    texts.append(read(numbers[at:]).decode("utf-8", "replace"))
    text = _without_shared(bound, "".join(texts))
    if split is None:
        split = _spelled_separator(bound, text)
    if split is None:
        return Payload(text, (text,), 0, tools, tuple(marks) if inner else None)
    return Payload(text, (text[: split[0]], text[split[1] :]), split[1], tools, tuple(marks) if inner else None)


def _places(ids: Ids, wanted: list[int]) -> list[int]:
    """Where any of a few ids stand."""
    if not wanted:
        return []
    found = ids == wanted[0]
    for number in wanted[1:]:
        found |= ids == number
    places: list[int] = found.nonzero()[0].tolist()
    return places


def _without_shared(bound: BoundFormat, text: str) -> str:
    """The text, blank where the first or last id shares characters with a spelled marker: as long as it was, so that places hold.

    At the end only after something closed, since a value that was cut off may end in such characters itself.
    """
    calls = bound.format.calls
    if calls is None or not bound.spelled:
        return text
    lead = tail = 0
    if calls.begin in bound.spelled:
        lead = next((size for size in range(len(calls.begin) - 1, 0, -1) if text.startswith(calls.begin[-size:])), 0)
    if calls.end is not None and calls.end in bound.spelled:
        tail = next((size for size in range(len(calls.end) - 1, 0, -1) if text.endswith(calls.end[:size])), 0)
        if not text[: len(text) - tail].rstrip().endswith(_CLOSERS):
            tail = 0
    return " " * lead + text[lead : max(len(text) - tail, lead)] + " " * min(tail, len(text) - lead)


def _spelled_separator(bound: BoundFormat, text: str) -> tuple[int, int] | None:
    """Where the separator stands in the text of a vocabulary that has no single id for it."""
    separator = bound.format.calls.separator if bound.format.calls else None
    if separator is None or separator not in bound.spelled:
        return None
    at = text.find(separator)
    return None if at < 0 else (at, at + len(separator))


def read_call(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    ids: Sequence[int] | NDArray[np.integer[Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> ToolCall:
    """The first call in one `tool_call` segment that has a name, else the first of all (see `read_calls`)."""
    return first_call(read_calls(bound, tokenizer, ids, tools))


def first_call(calls: Sequence[ToolCall]) -> ToolCall:
    """The first of the calls that has a name, else the first."""
    return next((call for call in calls if call.name is not None), calls[0])


class IdPlaces:
    """Finds the id that holds a character of the ids' text. Made once for a segment, asked for each of its faults."""

    def __init__(self, tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.integer[Any]]) -> None:
        numbers = as_ids(ids).tolist()
        self._last = max(len(numbers) - 1, 0)
        data = tokenizer.bytes_of(numbers)
        try:
            data.decode()
        except UnicodeDecodeError:  # what is no character reads U+FFFD, by rules that the display pieces know
            self._ends = np.array([piece.end for piece in pieces(tokenizer, numbers)], dtype=np.int64)
        else:
            ends = np.cumsum([len(tokenizer.token_bytes(number)) for number in numbers], dtype=np.int64)
            begins = (np.frombuffer(data, dtype=np.uint8) & _CONTINUES) != _CONTINUATION
            self._ends = np.concatenate(([0], np.cumsum(begins)))[ends]

    def find(self, position: int) -> int:
        """The index of the id where the code point at `position` begins; the last id for a position at or past the end."""
        return min(int(np.searchsorted(self._ends, position, side="right")), self._last)


def token_at(tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.integer[Any]], position: int) -> int:
    """Which of the ids holds the code point at `position` of their text; the last id for a position at or past the end."""
    return IdPlaces(tokenizer, ids).find(position)
