"""What a check of text is given: one answer, each of its segments decoded once."""

import codecs
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import Ids
from inference.tokens.segmentation.segments import Segmentation, SegmentKind
from inference.tokens.tokenizer import Tokenizer

_BROKEN = "\ufffd"
_utf8 = codecs.getincrementaldecoder("utf-8")


class Part(NamedTuple):
    """One segment, read: ids [start, end) and their text."""

    kind: SegmentKind
    start: int
    end: int
    text: str


class Reading:
    """One answer's text and what is known about it. Not changed once made.

    `parts` are its reasoning and content, in order. `prompt_text` is what the person asked (not the chat template around it); empty
    where it is not known.
    """

    def __init__(
        self,
        bound: BoundFormat,
        tokenizer: Tokenizer,
        prompt_text: str,
        ids: Ids,
        segmentation: Segmentation,
        *,
        finish_reason: str = "",
    ) -> None:
        self.bound = bound
        self.tokenizer = tokenizer
        self.prompt_text = prompt_text
        self.ids = ids
        self.segmentation = segmentation
        self.truncated = finish_reason == "length"
        self._ends: dict[int, list[int]] = {}  # by part: bytes up to each id's end

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Reasoning and content, decoded."""
        return tuple(
            Part(part.kind, part.start, part.end, self.tokenizer.decode(self.ids[part.start : part.end]))
            for part in self.segmentation.segments
            if part.kind in {"reasoning", "content"}
        )

    def ids_of(self, part: Part, start: int, end: int) -> tuple[int, int]:
        """The range of output ids that holds the code points [start, end) of a part's text."""
        if _BROKEN in part.text:  # then its bytes are not those of the ids
            return self._ids_of_broken(part, start, end)
        ends = self._ends.get(part.start)
        if ends is None:
            widths = map(len, map(self.tokenizer.vocabulary.bytes_of, self.ids[part.start : part.end].tolist()))
            ends = self._ends[part.start] = list(accumulate(widths))
        before, inside = len(part.text[:start].encode()), len(part.text[start:end].encode())
        first, last = bisect_right(ends, before), bisect_left(ends, before + inside)
        return part.start + min(first, last), min(part.start + last + 1, part.end)

    def _ids_of_broken(self, part: Part, start: int, end: int) -> tuple[int, int]:
        decoder = _utf8(errors="replace")
        read, begun, first = 0, part.start, part.end
        for at, number in enumerate(self.ids[part.start : part.end].tolist(), start=part.start):
            read += len(decoder.decode(self.tokenizer.token_bytes(number)))
            if first == part.end and read > start:
                first = begun
            if read >= end:
                return min(first, at), at + 1
            if not decoder.getstate()[0]:
                begun = at + 1  # the next character's first id
        return min(first, max(part.end - 1, part.start)), part.end
