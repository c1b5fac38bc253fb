"""Delimiters spelled out with ordinary ids: text that reads like `</think>` to every parser of text and is none to the model.

Ids that can begin such a spelling are few, so one look-up finds them, and only what follows them is read, as far as it fits.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import Ids

_OTHERS = ("<thinking>", "</thinking>")  # what a model writes that was taught by others
_MOST_PLACES = 1_000  # looked at in one part of an answer
_MOST_PAIRS = (
    100_000  # of ids that are remembered to lead nowhere: code is full of `<`, and of the same few words behind it
)

_known: "WeakKeyDictionary[BoundFormat, _Markers]" = WeakKeyDictionary()


class Spelled(NamedTuple):
    """Ids [start, end) spell `text`: a delimiter that this vocabulary has a single id for (`known`), or one of other models."""

    start: int
    end: int
    text: str
    known: bool


class _Markers:
    """A format's delimiters as bytes, and which ids can begin a spelling of one."""

    def __init__(self, bound: BoundFormat) -> None:
        self.texts = {text.encode(): text for text in bound.format.markers() if text in bound.ids}
        self.known = frozenset(self.texts.values())
        if bound.thinks:
            self.texts |= {text.encode(): text for text in _OTHERS if text not in bound.ids}
        self.begun = frozenset(text[:length] for text in self.texts for length in range(1, len(text)))
        self.vocabulary = bound.tokenizer.vocabulary
        self.starts = self.vocabulary.ids_holding(frozenset(text[:1] for text in self.texts))
        self._dead: set[tuple[int, ...]] = set()

    def read(self, numbers: list[int], at: int) -> Spelled | None:
        """The delimiter whose spelling begins within the id at `at`."""
        pair = (*numbers[at : at + 2],)
        if pair in self._dead:
            return None
        data, went_on = self.vocabulary.bytes_of(numbers[at]), False
        for place in range(len(data)):
            text, end = data[place:], at + 1
            while text in self.begun and end < len(numbers) and numbers[end] not in self.vocabulary.added:
                text += self.vocabulary.bytes_of(numbers[end])
                end += 1
            went_on = went_on or text in self.begun or end > at + 2
            for marker, name in self.texts.items():
                if text.startswith(marker):
                    return Spelled(at, end, name, name in self.known)
        if not went_on and len(self._dead) < _MOST_PAIRS:
            self._dead.add(pair)
        return None


def find_spelled(bound: BoundFormat, ids: Ids) -> list[Spelled]:
    """The delimiters spelled out in `ids`, in order; they do not overlap."""
    markers = _known.get(bound)
    if markers is None:
        markers = _known[bound] = _Markers(bound)
    places = markers.starts.take(ids, mode="clip").nonzero()[0][:_MOST_PLACES].tolist()
    if not places:
        return []
    numbers: list[int] = ids.tolist()
    found: list[Spelled] = []
    for at in places:
        if not found or at >= found[-1].end:
            spelled = markers.read(numbers, at)
            if spelled is not None:
                found.append(spelled)
    return found
