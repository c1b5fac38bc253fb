"""A growing log for the machine's eyes: every state of a progress bar as a line of its own, not redacted, never shown."""

import re
from collections.abc import Iterator
from pathlib import Path

from inference.backends.logs.extents import BLOCK, blocks, reading

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LONGEST_REST = 64 * 1024
_LONGEST_LINE = 16 * 1024


class LogFollower:
    """Reads a growing log in bounded bites.

    What `capping` left out is passed over, and with it the line it stood in. A file that became shorter (a file system
    without holes, see `capping`) is gone on with at its end: what was there was read before.

    Args:
        path: the log; it need not exist yet. What stands there and is no file of its own (a link, a pipe) is not read.
        from_end: bytes before the end to start at; None starts at the beginning.
    """

    BITE = BLOCK

    def __init__(self, path: Path, from_end: int | None = None) -> None:
        self._path = path
        self._rest = b""
        self._skip = False
        self.offset = 0
        if from_end is not None and path.exists():
            self.offset = max(0, path.stat().st_size - from_end)

    @property
    def drawn(self) -> str:
        """What stands at the end without an end of its own: the present state of a bar, which only its next state finishes."""
        return "" if self._skip else _text(self._rest)

    def read(self, bites: int = 4) -> Iterator[str]:
        """The lines that were finished since the last call; a flood is taken in over several calls."""
        if self._path.is_symlink() or not self._path.is_file():  # opening a pipe would wait for a writer
            return
        with reading(self._path) as file:
            size = file.seek(0, 2)
            if size < self.offset:
                self.offset, self._rest, self._skip = size, b"", True
            end = min(size, self.offset + bites * self.BITE)
            for position, block in blocks(file.fileno(), self.offset, size):
                if position > self.offset:  # a hole: the line that it cuts is dropped on both sides
                    end = min(size, position + bites * self.BITE)
                    self._rest, self._skip = b"", True
                self.offset = position + len(block)
                yield from self._lines(block)
                if self.offset >= end:
                    return

    def _lines(self, block: bytes) -> Iterator[str]:
        if self._skip:
            _, newline, block = block.partition(b"\n")
            self._skip = not newline
        lines = (self._rest + block).replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()[-_LONGEST_REST:]
        for line in lines:
            if line:
                yield _text(line)


def _text(line: bytes) -> str:
    text = line[:_LONGEST_LINE].decode("utf-8", "replace").replace("\0", "")  # what is told of it is kept in a database
    return ANSI.sub("", text) if "\x1b" in text else text
