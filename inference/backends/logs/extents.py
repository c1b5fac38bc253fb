"""A log as it lies on the disk: which bytes of it are there, and how readers and the one who shortens it keep apart.

A capped log has a hole where lines were left out (`capping`). Holes cost no space and reading them gives NULs; the file
system tells where they are, so that nobody reads gigabytes of nothing.
"""

import contextlib
import errno
import fcntl
import io
import os
from collections.abc import Iterator
from pathlib import Path

BLOCK = 1024 * 1024
"""Bytes taken from the disk at a time."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[io.FileIO]:
    """The file, open for reading; it is not rewritten meanwhile, only appended to.

    Raises:
        OSError: it cannot be opened.
    """
    with path.open("rb", buffering=0) as file:
        with contextlib.suppress(OSError):  # a file system without locks: then a reader may meet the rewriting
            fcntl.flock(file.fileno(), fcntl.LOCK_SH)
        yield file


def extents(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Half-open byte ranges within `[begin, end)` that hold data, in order; the whole range where nobody can tell."""
    while begin < end:
        try:
            data = os.lseek(descriptor, begin, os.SEEK_DATA)
            hole = os.lseek(descriptor, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole from here on
                return
            data, hole = begin, end
        if data >= end:
            return
        yield data, min(hole, end)
        begin = hole


def blocks(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The data within `[begin, end)` in bites of at most `BLOCK` bytes, each with its offset; holes are passed over."""
    for data, hole in extents(descriptor, begin, end):
        position = data
        while position < hole:
            block = os.pread(descriptor, min(BLOCK, hole - position), position)
            if not block:
                return
            yield position, block
            position += len(block)
