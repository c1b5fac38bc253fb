"""The text that reaches a parser, and which token each of its characters came from.

The server decodes the whole output, without the stop id that ended it and, unless something asks for them, without the tokens
that the tokenizer flags as special.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inference.tokens.ids import Ids
from inference.tokens.pieces import pieces
from inference.tokens.sglang.spans import Span
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.vocabulary import BLANK

NOWHERE: Final = 0
REASONING: Final = 1
CONTENT: Final = 2
_CONTINUES: Final = 0x80  # the top bits of a byte that goes on with a character


class Heard:
    """`text` is what a parser gets.

    `kept` is `bool[n]`: the ids that are in the text; `blank` those of them that say nothing but whitespace, or nothing at all.
    """

    def __init__(self, tokenizer: Tokenizer, ids: Ids, end: int, *, special: bool) -> None:
        self._n = len(ids)
        dropped = [] if special else sorted(tokenizer.special_ids)
        self.kept = ~np.isin(ids, np.array(dropped, dtype=np.int64))
        self.kept[end:] = False
        kept = ids[self.kept]
        parts = [tokenizer.token_bytes(number) for number in kept.tolist()]
        sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
        data = b"".join(parts)
        self.text = data.decode("utf-8", "replace")
        self._silent = sizes == 0
        starts = _first_characters(data, np.cumsum(sizes) - sizes, self.text)
        self._starts = _of_pieces(tokenizer, kept) if starts is None else starts
        self.blank = np.zeros(self._n, dtype=np.bool_)
        blank = tokenizer.vocabulary.blankness.take(kept, mode="clip") == BLANK
        self.blank[self.kept] = blank | self._silent

    def fields(self, spans: Sequence[Span]) -> NDArray[np.uint8]:
        """`uint8[n]`: per id REASONING, CONTENT, or NOWHERE where its first character is in no span."""
        of_character = np.zeros(len(self.text) + 1, dtype=np.uint8)
        for field, start, end in spans:
            of_character[start:end] = REASONING if field == "reasoning" else CONTENT
        of_id = np.zeros(self._n, dtype=np.uint8)
        of_id[self.kept] = np.where(self._silent, NOWHERE, of_character[self._starts])
        return of_id


def _first_characters(data: bytes, places: NDArray[np.int64], text: str) -> NDArray[np.int64] | None:
    """The character that each byte place lies in; None where some bytes are no character, and places cannot be counted."""
    if "\ufffd" in text:
        return None
    begins = np.append((np.frombuffer(data, dtype=np.uint8) & 0xC0) != _CONTINUES, True)
    return np.cumsum(begins)[places] - 1


def _of_pieces(tokenizer: Tokenizer, ids: Ids) -> NDArray[np.int64]:
    """The same, id by id: the ids that make a character together begin where it begins."""
    starts: list[int] = []
    for piece in pieces(tokenizer, ids):
        starts.append(starts[-1] if piece.group and piece.group[0] else piece.start)
    return np.array(starts, dtype=np.int64)
