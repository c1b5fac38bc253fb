"""One answer looked at: its segments, its flags and a preview.

This runs for every sample as it arrives, so it works on ids; only tool calls and the first words of the preview are decoded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.quality.answer import Answer
from inference.quality.checks import CHECKS
from inference.quality.flags import Flag, in_order
from inference.tokens.binding import BoundFormat
from inference.tokens.ids import as_ids
from inference.tokens.segmentation.segments import KINDS, Segmentation
from inference.tokens.tokenizer import Tokenizer

PREVIEW_CHARACTERS = 200
_PREVIEW_TOKENS = 72
_MOST_OF_A_CODE = 20


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found. `kinds` has one bit per segment kind met, in the order of `tokens.segments.KINDS`."""

    segmentation: Segmentation
    flags: tuple[Flag, ...]
    reasoning_tokens: int
    kinds: int
    preview: str


def inspect(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    prompt_ids: Sequence[int] | NDArray[np.integer[Any]] | None,
    output_ids: Sequence[int] | NDArray[np.integer[Any]],
    finish_reason: str | None,
    finish_matched: int | str | Sequence[int] | None,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    stop_ids: frozenset[int] | None = None,
) -> Inspection:
    """Segments, flags and a preview of one answer.

    `finish_reason` is SGLang's ("stop", "length", …; None or "" where unknown) and `finish_matched` what it matched: the stop id, the
    stop text, or nothing. `stop_ids` (default: the family's and the tokenizer's) are the ids that end an answer.
    """
    ids = as_ids(output_ids, "output_ids")
    stops = bound.stop_ids if stop_ids is None else stop_ids
    if finish_reason == "stop" and isinstance(finish_matched, int) and len(ids) and int(ids[-1]) == finish_matched:
        stops |= {finish_matched}  # a stop id of this request's own
    segmentation = bound.segment(prompt_ids, ids, stops)
    answer = Answer(
        bound,
        tokenizer,
        ids,
        segmentation,
        finish_reason=finish_reason or "",
        finish_matched=finish_matched,
        tools=tools,
        stop_ids=stops,
    )
    flags: list[Flag] = []
    for check in CHECKS:
        found = check(answer)
        if len(found) > _MOST_OF_A_CODE:
            found = _shortened(found)
        flags += found
    kinds = 0
    for segment in segmentation.segments:
        kinds |= 1 << KINDS.index(segment.kind)
    return Inspection(segmentation, in_order(flags), segmentation.reasoning_tokens, kinds, _preview(answer))


def _shortened(flags: Sequence[Flag]) -> list[Flag]:
    """The first few of each code; the last of them says how many more there are."""
    kept: dict[str, list[Flag]] = {}
    for item in flags:
        kept.setdefault(item.code, []).append(item)
    out: list[Flag] = []
    for items in kept.values():
        out += items[:_MOST_OF_A_CODE]
        more = len(items) - _MOST_OF_A_CODE
        if more > 0:
            out[-1] = out[-1]._replace(message=f"{out[-1].message} (and {more} more like it)")
    return out


def _preview(answer: Answer) -> str:
    """The answer's first words on one line: of its content, else of its calls, else of its reasoning."""
    by_kind: dict[str, tuple[int, int]] = {}
    for segment in answer.segmentation.segments:
        by_kind.setdefault(segment.kind, (segment.start, segment.end))
    for kind in ("content", "tool_call", "reasoning", "malformed"):
        if kind in by_kind:
            start, end = by_kind[kind]
            text = answer.tokenizer.decode(answer.ids[start : min(end, start + _PREVIEW_TOKENS)])
            return " ".join(text.split())[:PREVIEW_CHARACTERS]
    return ""
