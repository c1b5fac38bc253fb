"""What a check is given: one answer, segmented, with the facts that several checks ask for."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import Ids
from inference.tokens.segmentation.segments import Segment, Segmentation
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.vocabulary import NOT_BLANK

_FIRST_FEW = 4


class Answer:
    """One answer's ids and what is known about them. Not changed once made.

    `end` is where the answer ends: at its stop id, else after its last id. `empty`: no ids before that. `truncated`: the server
    stopped at the token limit. `reasoning_due`: whether the prompt asks for reasoning, None where nobody can tell.
    """

    def __init__(
        self,
        bound: BoundFormat,
        tokenizer: Tokenizer,
        ids: Ids,
        segmentation: Segmentation,
        *,
        finish_reason: str = "",
        finish_matched: int | str | Sequence[int] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        stop_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.bound = bound
        self.tokenizer = tokenizer
        self.ids = ids
        self.segmentation = segmentation
        self.finish_reason = finish_reason
        self.finish_matched = finish_matched
        self.tools = tools
        self.stop_ids = stop_ids
        self.truncated = finish_reason == "length"
        self.end = len(ids) if segmentation.stop is None else segmentation.stop
        self.empty = self.end == 0
        self.reasoning_due = bound.expects_reasoning(segmentation.prompt_state)

    def of_kind(self, *kinds: str) -> list[Segment]:
        """The segments of these kinds, in order."""
        return [segment for segment in self.segmentation.segments if segment.kind in kinds]

    def is_blank(self, start: int, end: int, but: Collection[int] = ()) -> bool:
        """Whether the ids [start, end), those at `but` left out, say nothing but whitespace (no ids at all: yes)."""
        ids, known = self.ids, self.tokenizer.vocabulary.blankness
        past = len(known) - 1
        for at in range(
            start, min(end, start + _FIRST_FEW)
        ):  # nearly always settles it, and costs less than an array would
            if at not in but and known[min(int(ids[at]), past)] == NOT_BLANK:
                return False
        rest = ids[start:end]
        return self.tokenizer.is_blank(np.delete(rest, [at - start for at in but]) if but else rest)

    def has_content(self) -> bool:
        """Whether some content is more than whitespace."""
        return any(not self.is_blank(part.start, part.end) for part in self.of_kind("content"))
