"""Retokenisation drift: where an answer's text, encoded again, would give other ids than those that were generated.

A model may write any ids; the tokenizer would write the same text with its own choice of them. Whoever trains from text trains
those. This is told and never mended: the ids are the data. Looked for on demand and at export, since it encodes everything again.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from inference.quality.flags import Flag, flag
from inference.tokens.ids import Ids
from inference.tokens.tokenizer import Tokenizer

_MOST_SHOWN = 16  # ids on either side


class Drift(NamedTuple):
    """The first place: ids [position, position + len(there)) would become `becomes` (both cut at 16 ids)."""

    position: int
    there: tuple[int, ...]
    becomes: tuple[int, ...]


def find_drift(tokenizer: Tokenizer, ids: Ids) -> Drift | None:
    """The first position at which `encode(decode(ids))` differs from `ids: uint32[n]`; None where nothing drifts.

    Each run of ordinary ids between two added tokens is taken by itself, as tokenizers do: a real delimiter is no drift, ordinary
    ids that spell one are.
    """
    added = np.fromiter(tokenizer.vocabulary.added, dtype=np.int64, count=len(tokenizer.vocabulary.added))
    borders = np.flatnonzero(np.isin(ids, added)).tolist()
    for before, after in pairwise([-1, *borders, len(ids)]):
        start = before + 1
        if start < after:
            drift = _in_run(tokenizer, ids[start:after].tolist())
            if drift is not None:
                return drift._replace(position=start + drift.position)
    return None


def drift_flag(tokenizer: Tokenizer, drift: Drift) -> Flag:
    """The drift as a flag, with what it is about."""
    there, becomes = (", ".join(map(str, numbers)) for numbers in (drift.there, drift.becomes))
    text = tokenizer.decode(list(drift.there))
    start = drift.position
    message = f"The text of these ids ({text!r}), encoded again, becomes {becomes or 'nothing'} instead of {there}."
    return flag("retokenization_drift", start, start + len(drift.there), message)


def _in_run(tokenizer: Tokenizer, there: list[int]) -> Drift | None:
    text = tokenizer.decode(there)
    readings = [tokenizer.encode(text)]
    if readings[0] == there:
        return None
    if tokenizer.vocabulary.style == "spaced" and text.startswith(" "):
        readings.append(
            tokenizer.encode(text[1:])
        )  # SentencePiece puts a space before a text, and takes it for its own
    places = [_first_difference(there, reading) for reading in readings]
    if None in places:
        return None
    best = max(range(len(readings)), key=lambda index: places[index] or 0)
    return _drift(tokenizer, there, readings[best], places[best] or 0)


def _first_difference(left: list[int], right: list[int]) -> int | None:
    if left == right:
        return None
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _drift(tokenizer: Tokenizer, there: list[int], becomes: list[int], at: int) -> Drift:
    """Both sides from the first difference to where they have said the same bytes again."""
    at = min(at, len(there) - 1)  # where the other side only goes on, the last id is cited
    left = right = at
    said = [0, 0]
    while True:
        if said[0] <= said[1] and left < len(there):
            said[0] += len(tokenizer.token_bytes(there[left]))
            left += 1
        elif right < len(becomes):
            said[1] += len(tokenizer.token_bytes(becomes[right]))
            right += 1
        elif left < len(there):
            left += 1
        else:
            break
        if said[0] == said[1] and right > at:
            break
    last = max(left, min(at + 1, len(there)))
    return Drift(at, tuple(there[at : min(last, at + _MOST_SHOWN)]), tuple(becomes[at : min(right, at + _MOST_SHOWN)]))
