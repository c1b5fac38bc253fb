"""Near repetition: the same few sentences again and again, exactly or with other numbers in them.

The text is taken as sentences and lines, and every number in them as the same number. A stretch is flagged where sentence after
sentence was met before within the last few, many times over. What lists, tables, code and songs do is not that: a table row or a
formula with numbers is data and ends a stretch, as any new sentence does; a line of code is never a sentence; a refrain is
soon followed by the next verse.
"""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from inference.quality.flags import Flag, flag
from inference.quality.reading import Part, Reading
from inference.quality.repetition import find_loop

_LEAST_REPEATS = 20  # sentences that were met before: more than weekly plans and rounds of a song have
_LEAST_COPIES = 4  # times that each sentence comes, in the mean
_WITHIN = 16  # units back that a sentence may have been met
_LEAST_WORDS = 3
_MOST_SHOWN = 60  # characters of the sentence that is quoted
_LEAST_CHARACTERS = 200  # of a part of the answer, for a look at it to be worth it

_ENDS = tuple(
    (end.encode(), broken.encode())
    for end, broken in ((". ", ".\n"), ("! ", "!\n"), ("? ", "?\n"), ("。", "\n"), ("！", "\n"), ("？", "\n"))
)
_FENCES = (b"```", b"~~~")
_DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
_NUMBERS = (
    b"0000",
    b"000",
    b"00",
    b"00",
    b"0,0",
    b"0.0",
    b"0:0",
    b"00",
    b"0.0",
)  # of up to some dozen digits, by halves
_SPACE = re.compile(r"\s+")
_CODE = re.compile(r"[=|{}\t;\\<>]|::|->|,\S")
_EDGES = "*_#>-–—•\"'`“”‘’«»()[].,:!?…。，：！？、"
_UNSPACED = 0x0E00  # from Thai on: scripts that are (mostly) written without spaces between words
_HANGUL = range(0xAC00, 0xD7A4)


class Stretch(NamedTuple):
    """Code points [start, end) of a text: `repeats` sentences that were met before, of `kinds` different ones."""

    start: int
    end: int
    repeats: int
    kinds: int
    example: str


def check_near(reading: Reading) -> list[Flag]:
    """Near repetition in reasoning or content; what repeats exactly to the end of a part has another flag."""
    found = []
    for part in reading.parts:
        if len(part.text) < _LEAST_CHARACTERS:
            continue
        stretches = list(find_stretches(part.text))
        loop = find_loop(reading.ids[part.start : part.end]) if stretches else None
        for stretch in stretches:
            start, end = reading.ids_of(part, stretch.start, stretch.end)
            # from there on (or nearly) the part is an exact loop, which has a flag of its own
            if loop is None or part.start + loop.start > start + 2 * loop.period:
                found.append(_flag(reading, part, stretch, (start, end)))
    return found


def find_stretches(text: str) -> Iterator[Stretch]:
    """The stretches of a text that repeat themselves nearly, in order; linear in its length."""
    runs = list(_runs(_units(_folded(text.encode("utf-8", "surrogatepass")))))
    if not runs:
        return
    units = _units_of_text(text)
    ends = list(accumulate(len(unit) + 1 for unit in units))
    for run in runs:
        start = ends[run.first] - len(units[run.first]) - 1
        example = _SPACE.sub(" ", units[run.first]).strip()
        yield Stretch(start, min(ends[run.last], len(text)), run.repeats, len(run.kinds), example)


def _folded(data: bytes) -> bytes:
    """Every number as one 0; whole text at a time, since this is done for every answer."""
    data = data.translate(_DIGITS)
    for number in _NUMBERS:
        data = data.replace(number, b"0")
    return data


def _units(data: bytes) -> list[bytes]:
    """The sentences and lines of a text, in order."""
    for end, broken in _ENDS:
        data = data.replace(end, broken)
    return data.split(b"\n")


def _units_of_text(text: str) -> list[str]:
    """The same before any folding (which happens within units); each stands one character after the one before."""
    for end, broken in _ENDS:
        text = text.replace(end.decode(), broken.decode())
    return text.split("\n")


def _runs(units: list[bytes]) -> Iterator["_Run"]:
    seen: dict[bytes, int] = {}
    kinds: dict[bytes, _Kind] = {}
    run, fenced = _Run(), False
    for place, unit in enumerate(units):
        bare = unit.strip()
        if not bare or bare == b"0.":
            continue  # nothing, or the number of a list's item
        if bare.startswith(_FENCES):
            fenced = not fenced
        kind = None
        if place - seen.get(bare, -_WITHIN - 1) <= _WITHIN:
            kind = kinds.get(bare) or kinds.setdefault(bare, _kind(bare.decode("utf-8", "replace")))
        seen[bare] = place
        if kind is _PROSE and not fenced:
            run.add(place, bare)
        elif run.repeats and kind is not _SIGNS:
            if run.counts():
                yield run
            run = _Run()
    if run.counts():
        yield run


class _Kind(NamedTuple):
    name: str


_PROSE = _Kind("a sentence")
_DATA = _Kind("numbers, of which the next are others")
_SIGNS = _Kind("neither: short lines, rules, markup")


def _data_or_signs(folded: str) -> _Kind:
    return _DATA if "0" in folded else _SIGNS


def _kind(folded: str) -> _Kind:
    """What a unit is. Prose has at least three words, and three for each number."""
    if _CODE.search(folded):
        return _data_or_signs(folded)
    words = numbers = 0
    for token in folded.split(" "):
        word = token.strip(_EDGES)
        if "0" in word:
            numbers += 1
        letters = sum(map(str.isalpha, word))
        if not letters:
            continue
        last = ord(word[-1])
        if last >= _UNSPACED and last not in _HANGUL:
            words += max(letters // 2, 1)
        elif letters >= len(word) - 1 and "0" not in word:
            words += 1
    if words >= _LEAST_WORDS * max(numbers, 1):
        return _PROSE
    return _DATA if numbers else _SIGNS


class _Run:
    """A stretch of units that grows: prose that was met before, from unit `first` to unit `last`."""

    def __init__(self) -> None:
        self.first = self.last = self.repeats = 0
        self.kinds: set[bytes] = set()

    def add(self, place: int, unit: bytes) -> None:
        if not self.repeats:
            self.first = place
        self.last = place
        self.repeats += 1
        self.kinds.add(unit)

    def counts(self) -> bool:
        return self.repeats >= max(_LEAST_REPEATS, _LEAST_COPIES * len(self.kinds))


def _flag(reading: Reading, part: Part, stretch: Stretch, cited: tuple[int, int]) -> Flag:
    start, end = cited
    share = round(100 * (end - start) / max(len(reading.ids), 1))
    same = "the same sentence" if stretch.kinds == 1 else f"the same {stretch.kinds} sentences"
    example = stretch.example if len(stretch.example) <= _MOST_SHOWN else f"{stretch.example[: _MOST_SHOWN - 1]}…"
    message = (
        f"From {start:,} on the {part.kind} says {same} {stretch.repeats:,} times more, with other numbers at most"
        f" (“{example}”): {share} % of the answer."
    )
    return flag("near_repetition", start, end, message)
