"""A format bound to one vocabulary: from here on, delimiters are ids and nothing is matched by text.

The table gives every id its role in one look-up, so that an output of n ids costs one numpy pass and a few steps of Python
for each delimiter in it, however long the text between.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.ids import Ids, as_ids
from inference.tokens.segmentation.blocks import segment_blocks
from inference.tokens.segmentation.roles import Marks, Role
from inference.tokens.segmentation.segments import PromptState, Segmentation
from inference.tokens.tokenizer import Tokenizer

RoleTable = NDArray[np.uint8]
_LAST_TURN = 64
_STATES: dict[int, PromptState] = {Role.THINK_OPEN: "open", Role.THINK_CLOSE: "closed", Role.SPEAKER: "none"}


class BoundFormat:
    """A `TokenFormat` with the ids of one tokenizer. Immutable in use; safe to share between threads.

    `ids` maps each marker that this vocabulary has to its id. `stop_ids` are the family's stops and the tokenizer's.
    """

    def __init__(self, declared: TokenFormat, tokenizer: Tokenizer, ids: dict[str, int]) -> None:
        self.format = declared
        self.name = declared.name
        self.tokenizer = tokenizer
        self.ids = ids
        self.thinks = declared.think is not None and declared.think.open in ids
        self.stop_ids = frozenset(ids[text] for text in declared.stops if text in ids) | tokenizer.stop_ids
        separator = declared.calls.separator if declared.calls else None
        self.separator_id = ids.get(separator) if separator else None
        self._sections = declared.calls is not None and declared.calls.section_begin in ids
        self._roles = self._role_of_each()
        self._tables: dict[frozenset[int], RoleTable] = {}
        self._template_thinks: bool | None = None
        if declared.think is not None and tokenizer.template is not None:
            self._template_thinks = declared.think.open in tokenizer.template

    def _role_of_each(self) -> dict[int, int]:
        declared = self.format
        roles = dict.fromkeys(self.tokenizer.special_ids, Role.FOREIGN)
        named: list[tuple[str | None, int]] = [(text, Role.FOREIGN) for text in declared.never_in_answer]
        named += [(text, Role.SPEAKER) for text in declared.turn_starts]
        if declared.calls:
            calls = declared.calls
            named += [(calls.separator, Role.SEPARATOR), (calls.begin, Role.CALL_BEGIN), (calls.end, Role.CALL_END)]
            named += [(calls.section_begin, Role.SECTION_BEGIN), (calls.section_end, Role.SECTION_END)]
        if declared.think:
            named += [(declared.think.open, Role.THINK_OPEN), (declared.think.close, Role.THINK_CLOSE)]
        roles.update({self.ids[text]: role for text, role in named if text in self.ids})
        return roles

    def roles(self, stop_ids: frozenset[int] | None = None) -> RoleTable:
        """`uint8[largest marker + 2]`: the role of each id; the last entry (TEXT) stands for every id past it.

        Take from it with `mode="clip"`. A stop id that is also one of the family's delimiters keeps its role as delimiter.
        """
        stops = self.stop_ids if stop_ids is None else stop_ids
        table = self._tables.get(stops)
        if table is None:
            roles = dict.fromkeys(stops, Role.STOP)
            roles.update(
                {number: role for number, role in self._roles.items() if role > Role.STOP or number not in stops}
            )
            size = max((number for number in roles if number <= self.tokenizer.vocabulary.size * 2), default=-1) + 2
            table = np.zeros(size, dtype=np.uint8)
            for number, role in roles.items():
                if 0 <= number < size - 1:
                    table[number] = role
            table.flags.writeable = False
            self._tables[stops] = table
        return table

    def prompt_state(self, prompt_ids: Ids | None) -> PromptState:
        """How the prompt leaves the think block: its last delimiter after the last turn start decides."""
        if prompt_ids is None or not len(prompt_ids):
            return "unknown"
        if not self.thinks:
            return "none"
        end, span = len(prompt_ids), _LAST_TURN
        while True:  # the last turn start is nearly always among the last few ids
            marks = self._marks(prompt_ids[max(end - span, 0) :], self.stop_ids)
            for _, role in reversed(marks):
                if role in _STATES:
                    return _STATES[role]
            if span >= end:
                return "none"
            span *= 8

    def _marks(self, ids: Ids, stops: frozenset[int]) -> Marks:
        roles = self.roles(stops).take(ids, mode="clip")
        places = roles.nonzero()[0]
        return list(zip(places.tolist(), roles[places].tolist(), strict=True))

    def expects_reasoning(self, state: PromptState) -> bool | None:
        """Whether reasoning is due after a prompt that leaves the think block so; None where nobody can tell."""
        if not self.thinks:
            return False
        if state == "unknown":
            return None
        if state == "none":
            known = {"always": True, "by_prompt": False, "never": False}
            return known.get(self.format.expects, self._template_thinks)
        return state == "open"

    def segment(
        self,
        prompt_ids: Sequence[int] | NDArray[np.integer[Any]] | None,
        output_ids: Sequence[int] | NDArray[np.integer[Any]],
        stop_ids: frozenset[int] | None = None,
    ) -> Segmentation:
        """The output ids as segments that tile them, by the seven rules; linear in their number, for any ids.

        `stop_ids` (default: the family's and the tokenizer's) are the ids that end an answer.
        """
        state = self.prompt_state(None if prompt_ids is None else as_ids(prompt_ids, "prompt_ids"))
        ids = as_ids(output_ids, "output_ids")
        stops = self.stop_ids if stop_ids is None else stop_ids
        if self.format.segmenter is not None:
            return self.format.segmenter(self, state, ids, stops)
        return segment_blocks(self.tokenizer, state, ids, self._marks(ids, stops), sections=self._sections)


def bind(declared: TokenFormat, tokenizer: Tokenizer) -> BoundFormat:
    """The format with this tokenizer's ids.

    Raises `TokensError("format_not_in_vocabulary")` where a delimiter the format cannot do without is not a single token.
    """
    ids: dict[str, int] = {}
    missing: list[str] = []
    needed = set(declared.signature)
    if declared.think and declared.think.required:
        needed |= {declared.think.open, declared.think.close}
    if declared.calls and declared.calls.required:
        needed |= {text for text in (declared.calls.begin, declared.calls.end, declared.calls.separator) if text}
    for text in (*declared.markers(), *declared.never_in_answer):
        number = tokenizer.id_of(text)
        if number is not None:
            ids[text] = number
        elif text in needed and text not in missing:
            missing.append(text)
    if missing:
        spelled = ", ".join(f"{text} (spelled with {len(tokenizer.encode(text))} ordinary ids)" for text in missing)
        message = (
            f"The token format {declared.name} does not fit the tokenizer {tokenizer.name}: not a single token there: {spelled}. "
            "Choose another format, or none."
        )
        raise TokensError("format_not_in_vocabulary", message, "token_format")
    for pair in _pairs(declared):
        if sum(text in ids for text in pair) == 1:  # half a pair would open what nothing can close
            for text in pair:
                ids.pop(text, None)
    return BoundFormat(declared, tokenizer, ids)


def _pairs(declared: TokenFormat) -> list[tuple[str, str]]:
    pairs = [(declared.think.open, declared.think.close)] if declared.think else []
    if declared.calls:
        pairs.append((declared.calls.begin, declared.calls.end))
        if declared.calls.section_begin and declared.calls.section_end:
            pairs.append((declared.calls.section_begin, declared.calls.section_end))
    return pairs
