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
        self._broken: dict[int, tuple[list[int], list[int]]] = {}  # by part whose bytes are not all characters

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
        known = self._broken.get(part.start)
        if known is None:
            known = self._broken[part.start] = self._read_broken(part)
        reads, begun = known
        first, last = bisect_right(reads, start), bisect_left(reads, end)
        if last == len(reads):
            last = max(last - 1, 0)
            return part.start + min(begun[first] if first < len(reads) else last, last), part.end
        return part.start + min(begun[min(first, last)], last), part.start + last + 1

    def _read_broken(self, part: Part) -> tuple[list[int], list[int]]:
        """By id of the part: the characters read up to its end, and which id began the character that it goes on with."""
        decoder = _utf8(errors="replace")
        read = open_since = 0
        reads: list[int] = []
        begun: list[int] = []
        for place, number in enumerate(self.ids[part.start : part.end].tolist()):
            read += len(decoder.decode(self.tokenizer.token_bytes(number)))
            reads.append(read)
            begun.append(open_since)
            if not decoder.getstate()[0]:
                open_since = place + 1
        return reads, begun
