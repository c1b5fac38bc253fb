"""The lines of a log as bytes, with where they lie: in bounded memory, whatever is in the file.

A line that does not lie there whole is none: what stands before a first newline where reading begins inside a line, and the
remains of a line that a hole cuts (`capping`), are passed over. So nobody can choose where to begin to see half a key.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from inference.backends.logs.extents import blocks, extents

LONGEST = 512 * 1024
"""Bytes of a line that are looked at: of a longer one the last state of its progress bar, or its beginning."""

CHUNK = 1024 * 1024
"""Bytes that are read at a time when reading backwards."""

_NULS = b"\0" * 64
"""No program prints so many: a hole was here while a reader did not know it yet."""

_WINDOW = 64 * 1024


class RawLine(NamedTuple):
    """Bytes `[offset, end)`, the newline included."""

    offset: int
    end: int
    data: bytes | None
    """Without the newline; None: this was left out of the log"""
    finished: bool
    """Whether its newline is there"""
    cut: bool = False
    """Whether it was longer than `LONGEST`"""


class RawLines:
    """The lines within `[begin, end)` of an open file, in order; iterate once.

    Args:
        descriptor: of the file.
        begin: a byte offset, best the start of a line.
        end: at most the file's size.
    """

    def __init__(self, descriptor: int, begin: int, end: int) -> None:
        self._descriptor, self._begin, self._end = descriptor, begin, end
        self._start = self._position = begin
        self._rest = b""
        self._dropped = 0
        self._skip = begin > 0 and os.pread(descriptor, 1, begin - 1) != b"\n"

    def __iter__(self) -> Iterator[RawLine]:
        for at, block in blocks(self._descriptor, self._begin, self._end):
            if at > self._position:
                yield self._gap(at)
            self._position = at + len(block)
            yield from self._lines(at, block)
        if self._position < self._end:
            yield self._gap(self._end)
        elif self._rest:
            data = None if _NULS in self._rest else self._rest
            yield RawLine(self._start, self._position, data, False, self._dropped > 0)

    @property
    def reached(self) -> int:
        """Where to begin next time: after the last whole line, or inside one whose beginning was passed over."""
        return self._start

    def _gap(self, end: int) -> RawLine:
        gap = RawLine(self._start, end, None, True)
        self._start = self._position = end
        self._rest, self._dropped, self._skip = b"", 0, True
        return gap

    def _lines(self, at: int, block: bytes) -> Iterator[RawLine]:
        cursor = 0
        if self._skip:
            cursor = block.find(b"\n") + 1
            self._start = at + cursor if cursor else self._position
            if not cursor:
                return
            self._skip = False
        data = self._rest + block[cursor:] if self._rest else block[cursor:]
        holed = _NULS in data
        pieces = data.split(b"\n")
        self._rest = pieces.pop()
        offset, dropped = self._start, self._dropped
        for piece in pieces:
            end = offset + dropped + len(piece) + 1
            self._start, self._dropped = end, 0
            left_out = holed and _NULS in piece
            yield RawLine(offset, end, None if left_out else piece, True, dropped > 0 or len(piece) > LONGEST)
            offset, dropped = end, 0
        self._shorten()

    def _shorten(self) -> None:
        if len(self._rest) <= LONGEST:
            return
        before = len(self._rest)
        state = self._rest.rfind(b"\r", 0, before - 1)  # of a bar that is drawn over and over, the last state is enough
        self._rest = self._rest[state:] if before - state <= LONGEST and state > 0 else self._rest[:LONGEST]
        self._dropped += before - len(self._rest)


def chunk_before(descriptor: int, end: int, size: int = CHUNK) -> tuple[int, int]:
    """The start of about the last `size` bytes of lines before `end`, itself the start of a line, and how much data lies between.

    A hole counts nothing and belongs to the chunk before it.
    """
    spans = [span for span in extents(descriptor, 0, end) if span[0] < end]
    if not spans:
        return 0, 0
    low, high = spans[-1]
    target = high - size
    while target > low:
        start = max(low, target - _WINDOW)
        found = os.pread(descriptor, target - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1, high - start - found - 1
        target = start
    return low, high - low
