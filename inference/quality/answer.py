"""What a check is given: one answer, segmented, with the facts that several checks ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import Ids
from inference.tokens.segments import Segment, Segmentation
from inference.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class Answer:
    """One answer's ids and what is known about them."""

    bound: BoundFormat
    tokenizer: Tokenizer
    ids: Ids
    segmentation: Segmentation
    finish_reason: str
    finish_matched: int | str | Sequence[int] | None
    tools: Sequence[Mapping[str, Any]] | None
    stop_ids: frozenset[int]

    @property
    def truncated(self) -> bool:
        """Whether the server stopped at the token limit."""
        return self.finish_reason == "length"

    @cached_property
    def end(self) -> int:
        """Where the answer ends: at its stop id, else at its last id."""
        stop = self.segmentation.stop
        return len(self.ids) if stop is None else stop

    @cached_property
    def empty(self) -> bool:
        """No ids before the stop."""
        return self.end == 0

    @cached_property
    def reasoning_due(self) -> bool | None:
        """Whether the prompt asks for reasoning; None where nobody can tell."""
        return self.bound.expects_reasoning(self.segmentation.prompt_state)

    @cached_property
    def roles(self) -> NDArray[np.uint8]:
        """The role of each id (`tokens.roles.Role`)."""
        return self.bound.roles(self.stop_ids).take(self.ids, mode="clip")

    def of_kind(self, *kinds: str) -> list[Segment]:
        """The segments of these kinds, in order."""
        return [segment for segment in self.segmentation.segments if segment.kind in kinds]

    @cached_property
    def has_content(self) -> bool:
        """Whether some content is more than whitespace."""
        return any(not self.tokenizer.is_blank(self.ids[part.start : part.end]) for part in self.of_kind("content"))
