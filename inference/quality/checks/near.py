"""Near repetition: the same few sentences again and again, exactly or with other numbers in them.

The text is taken as sentences and lines, and every number in them as the same number. A stretch is flagged where sentence after
sentence was met before within the last few, many times over. What lists, tables, code and songs do is not that: a table row or a
formula with numbers is data and ends a stretch, as any new sentence does; a block of code is one unit; a refrain is soon
followed by the next verse.
"""

import re
from collections.abc import Iterator
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

_BREAK = re.compile(r"[.!?\n。！？](?:(?<=[.!?])(?=\s)|(?<![.!?]))\s*")
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
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
        for stretch in find_stretches(part.text):
            start, end = reading.ids_of(part, stretch.start, stretch.end)
            if not _loops(reading, part, start):
                found.append(_flag(reading, part, stretch, (start, end)))
    return found


def find_stretches(text: str) -> Iterator[Stretch]:
    """The stretches of a text that repeat themselves nearly, in order; linear in its length."""
    folded = _NUMBER.sub("0", text)
    runs = list(_runs(folded))
    for run in runs:
        start, end = _unfolded(text, (run.start, run.end)) if len(text) != len(folded) else (run.start, run.end)
        example = next(line for line in text[start:end].splitlines() if line.strip())
        yield Stretch(start, end, run.repeats, len(run.kinds), _SPACE.sub(" ", example).strip())


def _runs(folded: str) -> Iterator["_Run"]:
    seen: dict[str, int] = {}
    kinds: dict[str, _Kind] = {}
    run = _Run()
    for place, (start, end, fenced) in enumerate(_units(folded)):
        unit = folded[start:end].strip()
        last = seen.get(unit)
        seen[unit] = place
        if last is not None and place - last <= _WITHIN:
            kind = kinds.get(unit)
            if kind is None:
                kind = kinds[unit] = _data_or_signs(unit) if fenced else _kind(unit)
            if kind is not _DATA:
                if kind is _PROSE:
                    run.add(start, end, unit)
                continue
        if run.counts():
            yield run
        if run.repeats:
            run = _Run()
    if run.counts():
        yield run


def _unfolded(text: str, places: tuple[int, int]) -> tuple[int, int]:
    """Where two places of the folded text are in the text itself."""
    found: list[int] = []
    shift = 0
    for number in _NUMBER.finditer(text):
        while len(found) < len(places) and places[len(found)] + shift <= number.start():
            found.append(places[len(found)] + shift)
        shift += number.end() - number.start() - 1
    found += [place + shift for place in places[len(found) :]]
    return found[0], found[1]


class _Kind(NamedTuple):
    name: str


_PROSE = _Kind("a sentence")
_DATA = _Kind("numbers, of which the next are others")
_SIGNS = _Kind("neither: short lines, rules, markup")


def _data_or_signs(folded: str) -> _Kind:
    return _DATA if "0" in folded else _SIGNS


def _kind(folded: str) -> _Kind:
    """What a unit is. Prose has at least three words, and more than two for each number."""
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
    if words >= max(_LEAST_WORDS, 2 * numbers + 1):
        return _PROSE
    return _DATA if numbers else _SIGNS


class _Run:
    """A stretch that grows: prose that was met before."""

    def __init__(self) -> None:
        self.start = self.end = self.repeats = 0
        self.kinds: set[str] = set()

    def add(self, start: int, end: int, unit: str) -> None:
        if not self.repeats:
            self.start = start
        self.end = end
        self.repeats += 1
        self.kinds.add(unit)

    def counts(self) -> bool:
        return self.repeats >= max(_LEAST_REPEATS, _LEAST_COPIES * len(self.kinds))


def _units(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether it is a fenced block of code) of each sentence or line."""
    at = 0
    if "```" in text or "~~~" in text:
        for fence in _FENCE.finditer(text):
            yield from _sentences(text, at, fence.start())
            yield fence.start(), fence.end(), True
            at = fence.end()
    yield from _sentences(text, at, len(text))


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    for found in _BREAK.finditer(text, start, end):
        at = found.start()
        if text[at] == "." and text[start:at].strip() == "0":
            continue  # the number of a list's item
        if at > start:
            yield start, found.end(), False
        start = found.end()
    if end > start:
        yield start, end, False


def _loops(reading: Reading, part: Part, start: int) -> bool:
    """Whether from there on (or nearly) the part is an exact loop, which has a flag of its own."""
    loop = find_loop(reading.ids[part.start : part.end])
    return loop is not None and part.start + loop.start <= start + 2 * loop.period


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
