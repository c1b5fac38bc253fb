"""Which bytes each id stands for.

Three ways of writing bytes into a vocabulary cover the tokenizers that language models use; which one holds is read from the
tokenizer's own decoder. Added tokens stand for their text, letter for letter, in all of them.

- *byte level* (GPT-2, Qwen, DeepSeek, gpt-oss, Kimi): one printable character per byte;
- *spaced* (SentencePiece and its conversions): `▁` for a space, `<0x0A>` for a byte that no piece holds;
- *literal*: the token is its text.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Style = Literal["byte_level", "spaced", "literal"]
Kind = Literal["text", "special", "added", "byte", "unknown"]
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")

NOT_BLANK, BLANK, MAYBE_BLANK = 0, 1, 2
_BLANK_CHARACTERS = "".join(chr(point) for point in range(0x3001) if chr(point).isspace())
_BLANK_BYTES = bytes({*_BLANK_CHARACTERS.encode()})


def _printable_bytes() -> dict[str, int]:
    """GPT-2's table: bytes that print stand for themselves, the others are shifted past U+00FF in order."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in kept]
    return {chr(byte): byte for byte in kept} | {chr(256 + place): byte for place, byte in enumerate(moved)}


PRINTABLE_BYTES = _printable_bytes()
_TO_BYTES = dict.fromkeys(range(256), "\uffff") | {ord(character): byte for character, byte in PRINTABLE_BYTES.items()}
"""Each printable character to the character of its byte's number; to none, what stands for no byte"""
_BY_BYTE = {byte: character for character, byte in PRINTABLE_BYTES.items()}


class Vocabulary:
    """Every id's raw token and bytes.

    `tokens` maps the raw token to its id (added tokens included); `added` maps the id of an added token to
    (text, flagged special).
    """

    def __init__(self, tokens: Mapping[str, int], added: Mapping[int, tuple[str, bool]], style: Style) -> None:
        self.style: Style = style
        self.added = dict(added)
        self.size = max(max(tokens.values(), default=-1), max(added, default=-1)) + 1
        self._ids = dict(tokens)
        self._added_ids = {text: number for number, (text, _) in added.items()}
        self._bytes: dict[int, bytes] = {}

    @cached_property
    def _raw(self) -> list[str | None]:
        raw: list[str | None] = [None] * self.size
        for token, number in self._ids.items():
            raw[number] = token
        for number, (text, _) in self.added.items():
            raw[number] = text
        return raw

    def id_of(self, text: str) -> int | None:
        """The id of the one token that is exactly this text, added tokens first; None where there is none."""
        found = self._added_ids.get(text)
        if found is None:
            found = self._ids.get(self._spelling(text))
        return found

    def _spelling(self, text: str) -> str:
        if self.style == "byte_level":
            return "".join(_BY_BYTE[byte] for byte in text.encode("utf-8", "surrogatepass"))
        return text.replace(" ", "▁") if self.style == "spaced" else text

    def bytes_of(self, number: int) -> bytes:
        """The bytes the id stands for; empty for an id without a token."""
        known = self._bytes.get(number)
        if known is None:
            known = self._bytes[number] = self._read(number)
        return known

    def join(self, numbers: list[int]) -> bytes:
        """The bytes of all the ids, in order."""
        known = self._bytes
        try:
            return b"".join([known[number] for number in numbers])
        except KeyError:
            return b"".join([self.bytes_of(number) for number in numbers])

    def _read(self, number: int) -> bytes:
        raw = self._raw[number] if 0 <= number < self.size else None
        if raw is None:
            return b""
        if number in self.added or self.style == "literal":
            return raw.encode()
        if self.style == "byte_level":
            try:
                return raw.translate(_TO_BYTES).encode("latin-1")
            except UnicodeEncodeError:  # a character that stands for no byte
                return raw.encode()
        byte = _BYTE.fullmatch(raw)
        return bytes([int(byte[1], 16)]) if byte else raw.replace("▁", " ").encode()

    def kind_of(self, number: int) -> Kind:
        """Special or added; byte where the id is no whole character alone; unknown where no token has this id."""
        if number in self.added:
            return "special" if self.added[number][1] else "added"
        raw = self._raw[number] if 0 <= number < self.size else None
        if raw is None:
            return "unknown"
        if self.style == "spaced":
            return "byte" if _BYTE.fullmatch(raw) else "text"
        try:
            self.bytes_of(number).decode()
        except UnicodeDecodeError:
            return "byte"
        return "text"

    @cached_property
    def _in_a_row(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All tokens' bytes in a row, and where each token's begin; the last entry is the end."""
        parts = [self._read(number) for number in range(self.size)]
        ends = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=self.size))
        return np.frombuffer(b"".join(parts), dtype=np.uint8), np.concatenate([np.zeros(1, dtype=np.int64), ends])

    def _count(self, wanted: bytes) -> NDArray[np.int64]:
        """`int64[size]`: how many of each token's bytes are among `wanted`."""
        data, bounds = self._in_a_row
        found = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.isin(data, np.frombuffer(wanted, np.uint8)))])
        counts: NDArray[np.int64] = found[bounds[1:]] - found[bounds[:-1]]
        return counts

    def ids_holding(self, wanted: bytes, *, added_too: bool = False) -> NDArray[np.bool_]:
        """`bool[size + 1]`: which tokens hold one of these bytes; the last entry stands for every id past the vocabulary.

        Of ordinary tokens, unless `added_too`.
        """
        table = np.append(self._count(wanted) > 0, np.False_)
        if not added_too:
            table[[*self.added]] = False
        return table

    @cached_property
    def without_token(self) -> NDArray[np.bool_]:
        """`bool[size + 1]`: the ids that no token has; the last entry stands for every id past the vocabulary."""
        return np.array([*(raw is None for raw in self._raw), True], dtype=np.bool_)

    @cached_property
    def blankness(self) -> NDArray[np.uint8]:
        """`uint8[size + 1]`: per id NOT_BLANK, BLANK (whitespace alone), MAYBE_BLANK (bytes that can be part of whitespace).

        The last entry stands for every id past the vocabulary.
        """
        table = np.zeros(self.size + 1, dtype=np.uint8)
        _, bounds = self._in_a_row
        lengths = np.diff(bounds)
        for number in np.flatnonzero((lengths > 0) & (self._count(_BLANK_BYTES) == lengths)).tolist():
            if number not in self.added:
                text = self._read(number).decode("utf-8", "replace")
                table[number] = BLANK if text.isspace() else MAYBE_BLANK
        return table
