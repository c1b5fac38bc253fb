"""Sentences about where a parser's answer departs from the segments, with the number of tokens concerned.

Whitespace alone is no difference, nor is the markup of tool calls in the content, which is where the server looks for it.
"""

import numpy as np
from numpy.typing import NDArray

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import Ids
from inference.tokens.segmentation.segments import KINDS, Segmentation
from inference.tokens.sglang.heard import CONTENT, NOWHERE, REASONING, Heard
from inference.tokens.sglang.spans import Parsed

_LONGEST_TAG = 8  # ids
_FEW = 2
_ORDINALS = {1: "second", 2: "third", 3: "fourth"}
_FIELDS = ((REASONING, "would be filed as reasoning"), (CONTENT, "would be content"), (NOWHERE, "would be dropped"))
_WHERE = {REASONING: "stay in the reasoning", CONTENT: "stay in content"}


def differences(
    bound: BoundFormat, ids: Ids, segmentation: Segmentation, heard: Heard, parsed: Parsed
) -> tuple[str, ...]:
    """The sentences, the greatest loss first; none where the parser and the segments agree."""
    return tuple(_Differences(bound, ids, segmentation, heard, parsed).told())


class _Differences:
    """Ours and theirs side by side: per id its segment's kind and the field it would land in."""

    def __init__(self, bound: BoundFormat, ids: Ids, segmentation: Segmentation, heard: Heard, parsed: Parsed) -> None:
        self.bound = bound
        self.ids = ids
        self.segmentation = segmentation
        self.parsed = parsed
        self.said = ~heard.blank
        self.kept = heard.kept
        self.field = heard.fields(parsed.spans)
        self.kind = np.zeros(len(ids), dtype=np.uint8)
        for segment in segmentation.segments:
            self.kind[segment.start : segment.end] = KINDS.index(segment.kind)
        self.reasoning = self.of_kind("reasoning")
        self.content = self.of_kind("content")
        self.tag_at: dict[int, str] = {}
        self.tags = np.zeros(len(ids), dtype=np.bool_)
        self.find_tags()
        self.sentences: list[str] = []

    def find_tags(self) -> None:
        """The delimiters of reasoning that acted, be they one id or spelled with several."""
        think = self.bound.format.think
        if think is None:
            return
        tags = (think.open, think.close)
        known = {number: self.bound.tokenizer.token_text(number) for tag in tags if (number := self.bound.ids.get(tag))}
        for kind, start, end, *_ in self.segmentation.segments:
            if kind != "control" or end - start > _LONGEST_TAG:
                continue
            tag = known.get(int(self.ids[start]))
            if tag is None and not known:
                text = self.bound.tokenizer.decode(self.ids[start:end])
                tag = next((tag for tag in tags if tag in text), None)
            if tag is not None:
                self.tag_at[start] = tag
                self.tags[start:end] = True

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        return np.equal(self.kind, KINDS.index(kind))

    def moved(self, ours: NDArray[np.bool_], field: int) -> NDArray[np.bool_]:
        """Which of our ids would land in this field; none where they say nothing but whitespace."""
        found = ours & (self.field == field)
        return found if (found & self.said).any() else np.zeros_like(found)

    def all_of(self, ours: NDArray[np.bool_], moved: NDArray[np.bool_]) -> bool:
        return not (ours & self.said & ~moved).any()

    def told(self) -> list[str]:
        self.tell_reasoning()
        self.tell_content()
        calls = self.of_kind("tool_call")
        self.tell(
            self.moved(calls, REASONING), "of tool calls would be filed as reasoning, where no call is looked for"
        )
        self.tell(self.moved(calls, NOWHERE), "of tool calls would be dropped")
        malformed = self.of_kind("malformed")
        for field, what in _FIELDS[:2]:
            self.tell(self.moved(malformed, field), f"that fit nowhere {what}")
        for field, where in _WHERE.items():
            stays = self.tags & (self.field == field)
            if stays.any():
                self.sentences.append(f"{self.named_tags(stays)} would {where} as text")
        unseen = self.tags & ~self.kept
        if self.sentences and unseen.any():
            self.sentences.append(
                f"{self.named_tags(unseen)} would not reach the parser, as a token flagged special is no text"
            )
        if self.parsed.added:
            self.sentences.append(f"{self.parsed.added} would be put before the content")
        return self.sentences

    def tell(self, moved: NDArray[np.bool_], what: str) -> None:
        if moved.any():
            self.sentences.append(f"{_tokens(moved)} {what}")

    def tell_reasoning(self) -> None:
        ours, into_content = self.reasoning, self.moved(self.reasoning, CONTENT)
        if (ours & self.said).any() and not self.parsed.reasoning.strip():
            self.sentences.append(f"reasoning would be '' (ours: {_tokens(ours)})")
            if into_content.any() and self.all_of(ours, into_content):
                tags = self.tags & (self.field == CONTENT)
                with_tags = f", its {self.named_tags(tags)} included," if tags.any() else ""
                what = "the whole answer" if (self.content & self.said).any() else "the reasoning"
                self.sentences.append(f"{what}{with_tags} would be content")
                self.tags &= ~tags
                return
        self.tell(self.without_later_blocks(into_content), "of the reasoning would be content")
        lost = self.moved(ours, NOWHERE)
        if lost.any():
            self.sentences.append(f"{self.part(lost, 'reasoning')} would be dropped")

    def without_later_blocks(self, into_content: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """What is left once the blocks after the first that would be content whole have been told as such."""
        left, whole, count, tagged = into_content.copy(), [], 0, False
        for place, block in enumerate(self.segmentation.reasoning[1:], start=1):
            inside = slice(block.start, block.end)
            if not into_content[inside].any() or (self.said[inside] & ~into_content[inside]).any():
                continue
            outer = slice(block.outer_start, block.outer_end)
            tags = self.tags[outer] & (self.field[outer] == CONTENT)
            tagged = tagged or bool(tags.any())
            self.tags[outer] &= ~tags
            whole.append(place)
            count += int(into_content[inside].sum())
            left[inside] = False
        if whole:
            named = (
                "the " + _ORDINALS[whole[0]] if len(whole) == 1 and whole[0] in _ORDINALS else f"{len(whole):,} further"
            )
            blocks = "block" if len(whole) == 1 else "blocks"
            included = ", tags included" if tagged else ""
            self.sentences.append(f"{named} think {blocks} would stay in content{included} ({_tokens(count)})")
        return left

    def tell_content(self) -> None:
        for field, what in (_FIELDS[0], _FIELDS[2]):
            moved = self.moved(self.content, field)
            if not moved.any():
                continue
            if self.all_of(self.content, moved):
                empty = ", and content would be ''" if not self.parsed.content.strip() else ""
                self.sentences.append(f"the whole answer ({_tokens(moved)}) {what}{empty}")
            else:
                self.sentences.append(f"{self.part(moved, 'answer')} {what}")

    def named_tags(self, which: NDArray[np.bool_]) -> str:
        return " and ".join(dict.fromkeys(tag for start, tag in self.tag_at.items() if which[start]))

    def part(self, moved: NDArray[np.bool_], of: str) -> str:
        """So many tokens of ours, or their texts where it is a control token or two that moved."""
        added = self.bound.tokenizer.vocabulary.added
        numbers = dict.fromkeys(self.ids[moved].tolist())
        if len(numbers) <= _FEW and all(number in added for number in numbers):
            return " and ".join(added[number][0] for number in numbers) + f" inside the {of}"
        return f"{_tokens(moved)} of the {of}"


def _tokens(moved: NDArray[np.bool_] | int) -> str:
    count = moved if isinstance(moved, int) else int(moved.sum())
    return f"{count:,} token" if count == 1 else f"{count:,} tokens"
