"""A format bound to one vocabulary: from here on, delimiters are ids.

The table gives every id its role in one look-up, so that an output of n ids costs one numpy pass and a few steps of Python
for each delimiter in it, however long the text between. Only where a family is known to have vocabularies without a token for
a delimiter is it matched as the ordinary ids that spell it.
"""

import gc
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.ids import Ids, as_ids
from inference.tokens.segmentation.roles import Marks, Role
from inference.tokens.segmentation.segments import Note, PromptState, Segmentation
from inference.tokens.segmentation.spelling import OTHERS, Speller
from inference.tokens.segmentation.uncut import Uncut
from inference.tokens.tokenizer import Tokenizer

RoleTable = NDArray[np.uint8]
_LAST_TURN = 64
_MANY_MARKS = 1_000
_BARE_TOKENS = 24  # at most so many ids hold what a bare call begins with
_STATES: dict[int, PromptState] = {Role.THINK_OPEN: "open", Role.THINK_CLOSE: "closed", Role.SPEAKER: "none"}
_BEGINS_TURN = frozenset([Role.SPEAKER, Role.MESSAGE_START])
_SUFFIXED = re.compile(r"(?P<begin><[^:>]+):[^:>｜]+(?P<end>｜?>)")


class _Found(NamedTuple):
    """The delimiters among some ids: their marks, the widths of those several ids long, and what there is to say of them."""

    marks: Marks
    widths: Mapping[int, int]
    notes: tuple[Note, ...]


class BoundFormat:
    """A `TokenFormat` with the ids of one tokenizer. Immutable in use; safe to share between threads.

    `ids` maps each marker that this vocabulary has to its id, `inner_ids` those that order a call's payload to their text.
    `spelled` has the delimiters that are matched as ordinary ids, with the ids that usually spell them. `stop_ids` are the
    family's stops and the tokenizer's. `remarks` are sentences on what is unusual about this pair.
    """

    def __init__(
        self,
        declared: TokenFormat,
        tokenizer: Tokenizer,
        ids: dict[str, int],
        spelled: dict[str, list[int]] | None = None,
    ) -> None:
        self.format = declared
        self.name = declared.name
        self.tokenizer = tokenizer
        self.ids = ids
        self.spelled = spelled or {}
        known = {*ids, *self.spelled}
        self.thinks = declared.messages is not None or (declared.think is not None and declared.think.open in known)
        self.stop_ids = frozenset(ids[text] for text in declared.stops if text in ids) | tokenizer.stop_ids
        calls = declared.calls
        separator = calls.separator if calls else declared.messages.body if declared.messages else None
        self.separator_id = ids.get(separator) if separator else None
        self.inner_ids = {ids[text]: text for text in (calls.inner if calls else ()) if text in ids}
        self._sections = calls is not None and calls.section_begin in known
        self._bare = re.compile(calls.bare) if calls and calls.bare else None
        self._roles = self._role_of_each()
        self._tables: dict[frozenset[int], RoleTable] = {}
        self._spelled_roles = {text: role for text, role in declared.delimiters() if text in self.spelled}
        self._acting = Speller(tokenizer.vocabulary, self.spelled, added_too=True) if self.spelled else None
        self._switches = Speller(tokenizer.vocabulary, declared.switch_words) if declared.switch_words else None
        self._template_thinks: bool | None = None
        if declared.think is not None and tokenizer.template is not None:
            opens = {declared.think.open, tokenizer.token_text(ids.get(declared.think.open, -1)) or declared.think.open}
            self._template_thinks = any(text in tokenizer.template for text in opens)

    def _role_of_each(self) -> dict[int, int]:
        declared = self.format
        roles: dict[int, int] = dict.fromkeys(self.tokenizer.special_ids, Role.FOREIGN)
        named = [*((text, Role.FOREIGN) for text in declared.never_in_answer), *declared.delimiters()]
        roles.update({self.ids[text]: role for text, role in reversed(named) if text in self.ids and role != Role.STOP})
        return roles

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know about this format on this vocabulary."""
        return tuple(
            f"{text} is no single token in this vocabulary; the ordinary ids that spell it "
            f"({', '.join(map(str, numbers))}) are taken for it."
            for text, numbers in self.spelled.items()
        )

    @cached_property
    def speller(self) -> Speller:
        """Finds delimiters spelled with ordinary ids that do not act."""
        known = [text for text in self.format.markers() if text in self.ids]
        noted = [text for text in OTHERS if text not in self.ids] if self.thinks else []
        return Speller(self.tokenizer.vocabulary, known, noted)

    def roles(self, stop_ids: frozenset[int] | None = None) -> RoleTable:
        """`uint8[largest marker + 2]`: the role of each id; the last entry (TEXT) stands for every id past it.

        Take from it with `mode="clip"`. A stop id that is also one of the family's delimiters keeps its role as delimiter.
        """
        stops = self.stop_ids if stop_ids is None else stop_ids
        table = self._tables.get(stops)
        if table is None:
            roles: dict[int, int] = dict.fromkeys(stops, Role.STOP)
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
        return self._state(prompt_ids, self._last_turn(prompt_ids)[1])

    def _state(self, prompt_ids: Ids, marks: Marks) -> PromptState:
        if not self.thinks:
            return "none"
        state: PromptState = next((_STATES[role] for _, role in reversed(marks) if role in _STATES), "none")
        if state == "none" and self._switches is not None and self.format.switch_words is not None:
            words = self._switches.find(prompt_ids)
            if words and words[-1].text == self.format.switch_words[0]:
                return "off"
        return state

    def _last_turn(self, prompt_ids: Ids) -> tuple[Ids, Marks]:
        """The prompt's end from its last turn start on (all of it, where it has none), and the marks there."""
        end, span = len(prompt_ids), _LAST_TURN
        while True:  # the last turn start is nearly always among the last few ids
            tail = prompt_ids[max(end - span, 0) :]
            marks = self._find(tail, self.stop_ids).marks
            begin = next((at for at, role in reversed(marks) if role in _BEGINS_TURN), None)
            if begin is not None:
                return tail[begin:], [(at - begin, role) for at, role in marks if at >= begin]
            if span >= end:
                return tail, marks
            span *= 8

    def _find(self, ids: Ids, stops: frozenset[int]) -> _Found:
        roles = self.roles(stops).take(ids, mode="clip")
        places = (roles != Role.TEXT).nonzero()[0]  # of bools: several times faster than of numbers
        marks: Marks = list(zip(places.tolist(), roles[places].tolist(), strict=True))
        return _Found(marks, {}, ()) if self._acting is None else self._with_spelled(self._acting, ids, marks)

    def _with_spelled(self, acting: Speller, ids: Ids, marks: Marks) -> _Found:
        """The marks with those of spelled delimiters; an id that they share with text beside them is left to the text."""
        found: dict[int, tuple[int, int]] = {}  # begin: (end, role)
        notes = []
        for item in acting.find(ids):
            begin = item.start + (item.lead > 0)
            end = item.end - (item.tail.strip() != b"")
            if begin < end:
                found[begin] = (end, self._spelled_roles[item.text])
            if item.lead or item.tail.strip():
                notes.append(Note("delimiter_shared", item.start, item.end))
        if not found:
            return _Found(marks, {}, tuple(notes))
        inside = {at for begin, (end, _) in found.items() for at in range(begin, end)}
        kept = [mark for mark in marks if mark[0] not in inside]
        merged = sorted([*kept, *((begin, role) for begin, (_, role) in found.items())])
        return _Found(merged, {begin: end - begin for begin, (end, _) in found.items()}, tuple(notes))

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
        prompt = as_ids(() if prompt_ids is None else prompt_ids, "prompt_ids")
        ids = as_ids(output_ids, "output_ids")
        prompt_end, prompt_marks = self._last_turn(prompt) if len(prompt) else (prompt, [])
        marks, widths, notes = self._find(ids, self.stop_ids if stop_ids is None else stop_ids)
        uncut = Uncut(
            self.tokenizer,
            ids,
            marks,
            self._state(prompt, prompt_marks) if len(prompt) else "unknown",
            prompt_end,
            prompt_marks,
            sections=self._sections,
            calls_end=self.format.calls is None or self.format.calls.end is not None,
            bare_call=self._begins_bare(ids),
            widths=widths,
            notes=notes,
        )
        if len(marks) < _MANY_MARKS:
            return self.format.segmenter(uncut)
        with _uncollected():
            return self.format.segmenter(uncut)

    def _begins_bare(self, ids: Ids) -> bool:
        return self._bare is not None and self._bare.match(self.tokenizer.decode(ids[:_BARE_TOKENS])) is not None


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cycle collector: cutting makes many small tuples and no cycle, and it would walk all of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def bind(declared: TokenFormat, tokenizer: Tokenizer) -> BoundFormat:
    """The format with this tokenizer's ids.

    Raises `TokensError("format_not_in_vocabulary")` where a delimiter the format cannot do without is not a single token, and
    the family is not known to spell it.
    """
    suffixed = _without_suffix(tokenizer) if declared.suffixed else {}
    ids: dict[str, int] = {}
    spelled: dict[str, list[int]] = {}
    missing: list[str] = []
    needed = declared.required()
    for text in dict.fromkeys((*declared.markers(), *declared.never_in_answer, *declared.signature)):
        number = tokenizer.id_of(text)
        number = suffixed.get(text) if number is None else number
        if number is not None:
            ids[text] = number
        elif text in declared.spelled:
            spelled[text] = tokenizer.encode(text)
        elif text in needed:
            missing.append(text)
    if missing:
        told = ", ".join(f"{text} (spelled with {len(tokenizer.encode(text))} ordinary ids)" for text in missing)
        message = (
            f"The token format {declared.name} does not fit the tokenizer {tokenizer.name}: not a single token there: {told}. "
            "Choose another format, or none."
        )
        raise TokensError("format_not_in_vocabulary", message, "token_format")
    for pair in declared.pairs():
        if sum(text in ids or text in spelled for text in pair) == 1:  # half a pair would open what nothing can close
            for text in pair:
                ids.pop(text, None)
                spelled.pop(text, None)
    return BoundFormat(declared, tokenizer, ids, spelled)


def _without_suffix(tokenizer: Tokenizer) -> dict[str, int]:
    """The added tokens that carry a suffix, by their text without it."""
    found = {}
    for number, (text, _) in tokenizer.vocabulary.added.items():
        match = _SUFFIXED.fullmatch(text)
        if match:
            found[match["begin"] + match["end"]] = number
    return found
