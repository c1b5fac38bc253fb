"""Logs stay within a size: the middle of a file that grew too large is given back to the disk.

A server writes to a 0600 file of its own, not to a pipe through a pump of ours: it outlives us, and must hang neither on a
full pipe nor on a pump that died. What it wrote is redacted on each read. The file cannot be rotated under a program that
holds it open, so its middle is punched out: a hole costs no space, every byte offset stays what it was (a reader goes on
where it stood), and nothing that is written meanwhile is lost. The first part (start-up, arguments) and the newest are kept.

A file system that cannot punch holes gets the newest part copied over a file that was emptied for a moment, at the offsets
it had; a line that the server writes in that moment may be lost, and a line in the log says so. Where there are not even
sparse files the offsets change too, and readers begin anew.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
from pathlib import Path

from inference.backends.logs.extents import BLOCK, extents

KEPT_FIRST = 4 * 1024 * 1024
"""Bytes of a log's beginning that are kept, or a quarter of what it may take, where that is less."""

WORTH_IT = 256 * 1024
"""Bytes; less than this is not worth another hole."""

COPIED_AT_MOST = 64 * 1024 * 1024
"""Bytes of the newest that are kept where they have to go through memory."""

_ALIGN_WITHIN = 64 * 1024
"""How far a cut looks for the end of a line."""

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""fallocate(2)"""

_CANNOT = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV, errno.EPERM})
COPIED = b"[Draftmill] The log was shortened here by copying it: what the server said in that moment may be missing.\n"


def cap(path: Path, max_bytes: int) -> int:
    """Shorten a log that takes more than `max_bytes` of the disk; costs one `stat` where there is nothing to do.

    Safe while a server appends to it (O_APPEND) and others read it. A quarter more than is needed is given back, so that a
    steady writer causes one hole for many megabytes.

    Returns:
        Bytes of the disk that were given back; 0 also where the log is not there, or is being read and cannot be rewritten now.
    """
    try:
        if path.lstat().st_blocks * 512 <= max_bytes:
            return 0
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return _shorten(descriptor, max_bytes)
    finally:
        os.close(descriptor)


def punch(descriptor: int, begin: int, end: int) -> bool:
    """Make `[begin, end)` a hole; False where the system cannot.

    Raises:
        OSError: it can, but failed (a full or broken disk).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        return False
    start, length = ctypes.c_int64(begin), ctypes.c_int64(end - begin)
    if libc.fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start, length) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number))


def _shorten(descriptor: int, max_bytes: int) -> int:
    before = os.fstat(descriptor)
    first = min(KEPT_FIRST, max_bytes // 4)
    newest = max_bytes * 3 // 4 - first
    begin, end = _after_line(descriptor, first), _after_line(descriptor, before.st_size - newest, forward=True)
    if sum(hole - data for data, hole in extents(descriptor, begin, end)) < WORTH_IT:
        return 0
    # The hole ends before a newline: whoever meets NULs drops what follows them up to there, so a line that was cut is never shown.
    if not punch(descriptor, begin, end - 1) and not _rewrite(descriptor, begin, end, max_bytes):
        return 0
    return max(0, (before.st_blocks - os.fstat(descriptor).st_blocks) * 512)


def _after_line(descriptor: int, position: int, *, forward: bool = False) -> int:
    """The start of a line near `position`, before it or, `forward`, after; `position` where no line ends near it."""
    start = max(0, position if forward else position - _ALIGN_WITHIN)
    window = os.pread(descriptor, _ALIGN_WITHIN, start)
    found = window.find(b"\n") if forward else window.rfind(b"\n")
    return position if found < 0 else start + found + 1


def _rewrite(descriptor: int, begin: int, end: int, max_bytes: int) -> bool:
    """Empty the file and write its first part and, from `end` on, its newest back; False while somebody reads it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks here
        pass
    try:
        size = os.fstat(descriptor).st_size
        end = max(end, _after_line(descriptor, size - COPIED_AT_MOST, forward=True))
        head, tail = _read(descriptor, 0, begin), _read(descriptor, end, size)
        os.ftruncate(descriptor, 0)
        os.ftruncate(descriptor, size)
        if os.fstat(descriptor).st_blocks * 512 > max_bytes:  # no sparse files: the newest moves forward
            os.ftruncate(descriptor, 0)
            end = begin + len(COPIED) + 1
        _write(descriptor, 0, head)
        _write(descriptor, end - len(COPIED) - 1, b"\n" + COPIED)
        _write(descriptor, end, tail)
        return True
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _read(descriptor: int, begin: int, end: int) -> bytes:
    parts = []
    while begin < end and (part := os.pread(descriptor, min(BLOCK, end - begin), begin)):
        parts.append(part)
        begin += len(part)
    return b"".join(parts)


def _write(descriptor: int, position: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
