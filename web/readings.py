"""The sample page's look across: what SGLang's chat route would have returned, beside what the ids say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inference.review.views import EngineReadingView, SampleView

MOST: Final = 20_000
"""Characters of one text that are shown; the rest is in the REST twin"""


@dataclass(frozen=True, slots=True)
class Text:
    """One field of an answer: its beginning, and how many characters more there are."""

    name: str
    text: str
    more: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What one or several parsers would have returned, all the same thing. No `parsers`: a server started without one."""

    parsers: tuple[str, ...]
    condition: str
    sentences: tuple[str, ...]
    fields: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Across:
    """Readings that differ, ours to hold them against, and the parsers that would have said the same."""

    differing: tuple[Reading, ...]
    unparsed: Reading | None
    same: tuple[str, ...]
    ours: tuple[Text, ...]


def across(sample: SampleView) -> Across | None:
    """What there is to show beside the segments; None where no reading says anything else."""
    found: dict[object, tuple[EngineReadingView, list[str]]] = {}
    for item in sample.engine_readings:
        if not item.same:
            said = (item.parser is None, item.condition, item.reasoning, item.content, *item.sentences)
            found.setdefault(said, (item, []))[1].extend([item.parser] if item.parser else [])
    readings = [_reading(item, names) for item, names in found.values()]
    if not readings:
        return None
    return Across(
        differing=tuple(item for item in readings if item.parsers),
        unparsed=next((item for item in readings if not item.parsers), None),
        same=tuple(dict.fromkeys(item.parser for item in sample.engine_readings if item.same and item.parser)),
        ours=tuple(_text(kind, _joined(sample, kind)) for kind in ("reasoning", "content")),
    )


def _reading(item: EngineReadingView, names: Sequence[str]) -> Reading:
    fields = (_text("reasoning", item.reasoning), _text("content", item.content))
    return Reading(tuple(names), item.condition, tuple(item.sentences), fields)


def _text(name: str, text: str) -> Text:
    return Text(name, text[:MOST], max(len(text) - MOST, 0))


def _joined(sample: SampleView, kind: str) -> str:
    return "".join(segment.text for segment in sample.segments if segment.kind == kind)
