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

NOWHERE: Final = 0
REASONING: Final = 1
CONTENT: Final = 2


class Heard:
    """`text` is what a parser gets.

    `kept` is `bool[n]`: the ids that are in the text; `blank` those of them that say nothing but whitespace, or nothing at all.
    """

    def __init__(self, tokenizer: Tokenizer, ids: Ids, end: int, *, special: bool) -> None:
        self._n = len(ids)
        dropped = [] if special else sorted(tokenizer.special_ids)
        self.kept = ~np.isin(ids, np.array(dropped, dtype=np.int64))
        self.kept[end:] = False
        found = pieces(tokenizer, ids[self.kept])
        self.text = "".join([piece.text for piece in found])
        starts: list[int] = []
        for piece in found:  # the ids of one character begin where it begins
            starts.append(starts[-1] if piece.group and piece.group[0] else piece.start)
        self._starts = np.array(starts, dtype=np.int64)
        self._silent = np.array([not piece.bytes for piece in found], dtype=np.bool_)
        self.blank = np.zeros(self._n, dtype=np.bool_)
        self.blank[self.kept] = [not piece.text.strip() for piece in found]

    def fields(self, spans: Sequence[Span]) -> NDArray[np.uint8]:
        """`uint8[n]`: per id REASONING, CONTENT, or NOWHERE where its first character is in no span."""
        of_character = np.zeros(len(self.text) + 1, dtype=np.uint8)
        for field, start, end in spans:
            of_character[start:end] = REASONING if field == "reasoning" else CONTENT
        of_id = np.zeros(self._n, dtype=np.uint8)
        of_id[self.kept] = np.where(self._silent, NOWHERE, of_character[self._starts])
        return of_id
