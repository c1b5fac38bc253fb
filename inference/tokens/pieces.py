"""Token by token, for display: the bytes of each id and the characters they make.

Ids that only together make a character form a group: the first carries the text, so no part of a character is ever shown as
one. The pieces' bytes, joined, are the bytes of the sequence; their texts, joined, are its text. U+FFFD stands only for bytes
that are no character at all.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.tokens.ids import as_ids
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.vocabulary import Kind

_DECODER = codecs.getincrementaldecoder("utf-8")
_CONTINUATION = range(0x80, 0xC0)


@dataclass(frozen=True, slots=True)
class Piece:
    """One id. `bytes` is hex; `text` what it adds to the text; `start`/`end` code-point offsets there; `group` (place, size)."""

    index: int
    id: int
    kind: Kind
    bytes: str
    text: str
    start: int
    end: int
    group: tuple[int, int] | None = None


def pieces(tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.integer[Any]]) -> list[Piece]:
    """One piece for each id, in order."""
    reader = _Reader(tokenizer)
    for number in as_ids(ids).tolist():
        reader.read(number)
    reader.close()
    return reader.out


class _Reader:
    """Collects ids until they end on a whole character, then makes their pieces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.decoder = _DECODER("replace")
        self.out: list[Piece] = []
        self.open: list[int] = []
        self.text = ""
        self.offset = 0
        self.kinds: dict[int, Kind] = {}

    def read(self, number: int) -> None:
        data = self.tokenizer.token_bytes(number)
        if self.open and data and data[0] not in _CONTINUATION:
            self.close()  # what is open cannot become a character any more
        self.open.append(number)
        self.text += self.decoder.decode(data)
        if not self.decoder.getstate()[0]:
            self.close()

    def close(self) -> None:
        if not self.open:
            return
        text = self.text + self.decoder.decode(b"", final=True)
        self.decoder.reset()
        size, start = len(self.open), self.offset
        self.offset += len(text)
        for place, number in enumerate(self.open):
            kind = self.kinds.get(number)
            if kind is None:
                kind = self.kinds[number] = self.tokenizer.kind_of(number)
            self.out.append(
                Piece(
                    index=len(self.out),
                    id=number,
                    kind=kind,
                    bytes=self.tokenizer.token_bytes(number).hex(),
                    text="" if place else text,
                    start=self.offset if place else start,
                    end=self.offset,
                    group=(place, size) if size > 1 else None,
                )
            )
        self.open, self.text = [], ""
