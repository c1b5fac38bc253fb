"""One answer looked at: its segments, its flags and a preview.

`inspect` runs for every sample as it arrives, so it works on ids; only tool calls and the first words of the preview are decoded.
`inspect_text` runs behind it, where there is time to read.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.quality.answer import Answer
from inference.quality.checks.check import run_checks
from inference.quality.checks.registry import ID_CHECKS, TEXT_CHECKS
from inference.quality.flags import OFF_BY_DEFAULT, Flag, in_order
from inference.quality.reading import Reading
from inference.tokens.binding import BoundFormat
from inference.tokens.ids import as_ids
from inference.tokens.segmentation.segments import KINDS, Segmentation, SegmentKind
from inference.tokens.tokenizer import Tokenizer

PREVIEW_CHARACTERS = 200
_PREVIEW_TOKENS = 72
_BITS: dict[SegmentKind, int] = {kind: 1 << place for place, kind in enumerate(KINDS)}
_PREVIEWED: tuple[SegmentKind, ...] = ("content", "tool_call", "reasoning", "malformed")


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
    off: AbstractSet[str] = frozenset(),
) -> Inspection:
    """Segments, flags and a preview of one answer.

    `finish_reason` is SGLang's ("stop", "length", …; None or "" where unknown) and `finish_matched` what it matched: the stop id, the
    stop text, or nothing. `stop_ids` (default: the family's and the tokenizer's) are the ids that end an answer.
    Flags whose codes are in `off` are not raised, and a check that can raise no other is not run.
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
    flags = run_checks(ID_CHECKS, answer, off)
    kinds = 0
    for segment in segmentation.segments:
        kinds |= _BITS[segment.kind]
    return Inspection(segmentation, in_order(flags), segmentation.reasoning_tokens, kinds, _preview(answer))


def inspect_text(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    prompt_text: str | None,
    output_ids: Sequence[int] | NDArray[np.integer[Any]],
    segmentation: Segmentation,
    *,
    finish_reason: str | None = None,
    off: AbstractSet[str] = OFF_BY_DEFAULT,
) -> tuple[Flag, ...]:
    """The flags of the checks that read: each part of the answer is decoded once. In the order of `inspect`'s flags.

    `prompt_text` is what the person asked, the last user message as it was written (not the chat template around it); None or empty
    where it is not known. `segmentation` is that of `inspect`. `off` as there; left out, it is
    what is off by default.
    """
    ids = as_ids(output_ids, "output_ids")
    reading = Reading(bound, tokenizer, prompt_text or "", ids, segmentation, finish_reason=finish_reason or "")
    return in_order(run_checks(TEXT_CHECKS, reading, off))


def _preview(answer: Answer) -> str:
    """The answer's first words on one line: of its content, else of its calls, else of its reasoning."""
    segments = answer.segmentation.segments
    for kind in _PREVIEWED:
        for segment in segments:
            if segment.kind == kind:
                ids = answer.ids[segment.start : min(segment.end, segment.start + _PREVIEW_TOKENS)]
                text = answer.tokenizer.vocabulary.join(ids.tolist()).decode("utf-8", "replace")
                return " ".join(text.split())[:PREVIEW_CHARACTERS]
    return ""
