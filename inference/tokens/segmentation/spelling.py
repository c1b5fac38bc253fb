"""Delimiters spelled out with ordinary ids: text that reads like `</think>` to every parser of text.

To a vocabulary that has an id for the delimiter, its spelling is text, and is only noted. Where a family's vocabulary has none,
the spelling is all there is, and acts; the ids of a spelling need not be the ones an encoder would choose.

Ids that can begin such a spelling are few, so one look-up finds them, and only what follows them is read, as far as it fits.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from inference.tokens.ids import Ids
from inference.tokens.vocabulary import Vocabulary

OTHERS = ("<thinking>", "</thinking>", "<thought>", "</thought>", "<reasoning>", "</reasoning>")
"""What a model writes that was taught by others"""
_MOST_NOTED = 1_000  # places looked at in one part of an answer, where a spelling is only noted
_EMPTY_IDS = 4  # ids of no bytes that may stand within a spelling
_MOST_PAIRS = (
    100_000  # of ids that are remembered to lead nowhere: code is full of `<`, and of the same few words behind it
)


class Spelled(NamedTuple):
    """Ids [start, end) spell `text`: a delimiter that this vocabulary has a single id for (`known`), or one of other models.

    `lead` bytes of the first id stand before the spelling, and `tail` follows it in the last id.
    """

    start: int
    end: int
    text: str
    known: bool
    lead: int = 0
    tail: bytes = b""


class Speller:
    """Finds texts spelled with ids of one vocabulary. Safe to share between threads.

    `noted` texts are those the vocabulary has no id for and that do not act: found, with `known` false. `added_too`: whether
    tokens added to the vocabulary may be part of a spelling.
    """

    def __init__(
        self, vocabulary: Vocabulary, known: Iterable[str], noted: Iterable[str] = (), *, added_too: bool = False
    ) -> None:
        self.known = frozenset(known)
        texts = {text.encode(): text for text in (*self.known, *noted)}
        self.texts = dict(sorted(texts.items(), key=lambda item: -len(item[0])))  # the longest that fits is meant
        self.begun = frozenset(text[:length] for text in self.texts for length in range(1, len(text)))
        self.vocabulary = vocabulary
        self.added_too = added_too
        self.closed_to: frozenset[int] = frozenset() if added_too else frozenset(vocabulary.added)
        self.longest = max(map(len, self.texts), default=0) + _EMPTY_IDS
        self._dead: set[tuple[int, ...]] = set()

    @cached_property
    def starts(self) -> NDArray[np.bool_]:
        """`bool[vocabulary + 1]`: the ids within which a spelling can begin."""
        firsts = bytes({text[0] for text in self.texts})
        return self.vocabulary.ids_holding(firsts, added_too=self.added_too)

    def find(self, ids: Ids, most: int | None = None) -> list[Spelled]:
        """The texts spelled out in `ids`, in order; they do not overlap. Looks at `most` places at most (None: all)."""
        places = self.starts.take(ids, mode="clip").nonzero()[0][:most].tolist() if self.texts else []
        found: list[Spelled] = []
        for at in places:
            if not found or at >= found[-1].end:
                spelled = self._read(ids[at : at + self.longest].tolist(), at)
                if spelled is not None:
                    found.append(spelled)
        return found

    def _read(self, numbers: list[int], at: int) -> Spelled | None:
        """The text whose spelling begins within the first of these ids, which stands at `at`."""
        pair = (*numbers[:2],)
        if pair in self._dead:
            return None
        data, went_on = self.vocabulary.bytes_of(numbers[0]), False
        for place in range(len(data)):
            text, end = data[place:], 1
            while text in self.begun and end < len(numbers) and numbers[end] not in self.closed_to:
                text += self.vocabulary.bytes_of(numbers[end])
                end += 1
            went_on = went_on or text in self.begun or end > 2  # noqa: PLR2004  (past the pair)
            for marker, name in self.texts.items():
                if text.startswith(marker):
                    return Spelled(at, at + end, name, name in self.known, place, text[len(marker) :])
        if not went_on and len(self._dead) < _MOST_PAIRS:
            self._dead.add(pair)
        return None


class Spells(Protocol):
    """A format that knows which spellings are worth a note."""

    @property
    def speller(self) -> Speller:
        """Finds them."""


def find_spelled(bound: Spells, ids: Ids) -> list[Spelled]:
    """The delimiters spelled out in `ids` that do not act, in order."""
    return bound.speller.find(ids, _MOST_NOTED)
