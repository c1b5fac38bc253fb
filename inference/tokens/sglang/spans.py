"""What a parser of text says, as ranges of that text, so that it can be told token by token where each part would go."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Field = Literal["reasoning", "content"]


class Span(NamedTuple):
    """Characters [start, end) of the text go to this field of the answer. What no span holds is dropped."""

    field: Field
    start: int
    end: int


class Parsed(NamedTuple):
    """The two fields of the answer, and the spans they were made of; `added` is what no token of the answer says."""

    reasoning: str
    content: str
    spans: tuple[Span, ...] = ()
    added: str = ""


def gathered(text: str, spans: Sequence[Span], *, before: str = "") -> Parsed:
    """The fields from their spans, in order; `before` is put in front of the content."""
    reasoning = "".join([text[span.start : span.end] for span in spans if span.field == "reasoning"])
    content = before + "".join([text[span.start : span.end] for span in spans if span.field == "content"])
    return Parsed(reasoning, content, tuple(span for span in spans if span.start < span.end), before)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without the whitespace around it."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, max(start, end - (len(part) - len(part.rstrip())))


def held_back(text: str, start: int, markers: Sequence[str]) -> int:
    """Where the longest ending of text[start:] begins that is the beginning of a marker, and not all of it; else len(text)."""
    longest = max(len(marker) for marker in markers)
    for length in range(min(len(text) - start, longest - 1), 0, -1):
        ending = text[len(text) - length :]
        if any(len(marker) > length and marker.startswith(ending) for marker in markers):
            return len(text) - length
    return len(text)
