"""A server's log as people may see it: its end, a search through it, what is new, and all of it.

The server writes to a 0600 file itself (`capping` says why) and everything is cleaned and masked on each read. That file may
hold a key (SGLang prints its arguments); nothing that is read through this module does. Every read is bounded in memory and,
but for the whole log, in how much of the file it looks at.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from db.tables import BackendStart
from inference.backends.logs.extents import extents, reading
from inference.backends.logs.folding import LogLine, Wanted, clean, fold, left_out, shorten
from inference.backends.logs.keeping import log_root
from inference.backends.logs.levels import HINTS, INFO, LEFT_OUT, Levels
from inference.backends.logs.rawlines import CHUNK, LONGEST, RawLine, RawLines, chunk_before
from inference.backends.logs.redaction import redact
from inference.settings import Settings

LOOK_BACK = 24 * 1024 * 1024
"""Bytes of lines that one read looks at; a stretch that holds nothing of what is searched counts a sixteenth."""

AT_ONCE = 256 * 1024
"""Bytes of new lines that are given at once."""

BEHIND = 1024 * 1024
"""Bytes: who is further behind a growing log than that is led to its end."""

_PASSED_OVER = 16
_WARM_UP = 16 * 1024
"""Bytes before a stretch that tell whether it begins inside a traceback."""

_FIRST_CHUNK = 128 * 1024
"""Enough for most who look at a log's end"""

_CONTROL = bytes([*range(9), 11, 12, *range(14, 32), 127])


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines in order, and where the log goes on: `before` for what is older (None: nothing is), `position` for what is new.

    A last line that has no end yet is among the lines that were read back, and stands after `position`.
    """

    lines: list[LogLine] = field(default_factory=list)
    before: int | None = None
    position: int = 0
    unfinished: str = ""
    """What stands after `position` of a line that has no end yet; it may be written over"""
    skipped: int = 0
    """Bytes before `lines` that were passed over, for a reader who was too far behind"""


def log_file(settings: Settings, start: BackendStart | None) -> Path | None:
    """The start's log, where it exists and lies under the folder of all logs."""
    if start is None or start.log_path is None:
        return None
    path = Path(start.log_path).resolve()
    return path if path.is_relative_to(log_root(settings)) and path.is_file() else None


def read_tail(settings: Settings, start: BackendStart | None, lines: int = 200, secrets: tuple[str, ...] = ()) -> str:
    """The last `lines` lines of a start's log as text, equal ones in a row folded; empty where there is no log.

    Args:
        settings: its data directory bounds where a log may lie.
        start: whose log.
        lines: at most so many.
        secrets: known key values to mask besides what looks like one.
    """
    return "\n".join(map(str, read_back(log_file(settings, start), lines, secrets).lines))


def read_back(
    path: Path | None,
    count: int,
    secrets: tuple[str, ...] = (),
    wanted: Wanted | None = None,
    before: int | None = None,
) -> Lines:
    """The last `count` lines that are wanted, of those before byte `before`, or of all.

    Args:
        path: the log.
        count: at most so many; fewer where `LOOK_BACK` was reached: `before` goes on from there.
        secrets: known keys.
        wanted: None wants all, and is told of what was left out of the log.
        before: the `before` of a former answer.
    """
    if path is None:
        return Lines()
    wanted = wanted or Wanted()
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        end = size if before is None else min(max(before, 0), size)
        found: list[LogLine] = []
        looked, size_of_chunk = 0, _FIRST_CHUNK
        while end > 0 and len(found) < count and looked < LOOK_BACK:
            begin, data = chunk_before(file.fileno(), end, size_of_chunk)
            size_of_chunk = CHUNK
            if _may_hold(file.fileno(), begin, end, data, wanted):
                looked += data
                found = _join(_stretch(file.fileno(), begin, end, secrets, wanted), found)
            else:
                looked += data // _PASSED_OVER
            end = begin
        position = _finished(file.fileno(), size)
    older = found[-count].offset if len(found) > count else end
    return Lines(found[-count:], older or None, position)


def read_on(path: Path | None, offset: int, secrets: tuple[str, ...] = (), limit: int = AT_ONCE) -> Lines:
    """What follows byte `offset`: finished lines, at most about `limit` bytes of them at once.

    An offset inside a line begins at the next one; one past the end (a log that was shortened by copying) at the end.
    """
    if path is None:
        return Lines()
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        begin = offset if 0 <= offset <= size else size
        skipped = 0
        if sum(hole - data for data, hole in extents(file.fileno(), begin, size)) > BEHIND:
            target = _line_start(file.fileno(), size - limit // 2)
            begin, skipped = target, target - begin
        raws = RawLines(file.fileno(), begin, size)
        taken = []
        position, unfinished = begin, ""
        for raw in raws:
            if not raw.finished and raw.end - raw.offset <= LONGEST:
                if raw.data is not None:
                    unfinished = shorten(clean(raw.data, secrets, unfinished=True))
                break
            taken.append(raw)
            position = raw.end
            if position - begin >= limit:
                break
        else:
            position = max(position, raws.reached)
    return Lines(list(fold(taken, secrets)), position=position, unfinished=unfinished, skipped=skipped)


def first_position(path: Path | None, bytes_from_end: int) -> int:
    """The start of the first line of the last `bytes_from_end` bytes."""
    if path is None:
        return 0
    with reading(path) as file:
        return _line_start(file.fileno(), os.fstat(file.fileno()).st_size - bytes_from_end)


def whole(path: Path, secrets: tuple[str, ...] = ()) -> Iterator[str]:
    """All of the log as it is now, masked, in pieces of whole lines; nothing is folded, nothing but endless lines is cut."""
    position, end = 0, path.stat().st_size
    while position < end:
        with reading(path) as file:
            raws = RawLines(file.fileno(), position, min(end, os.fstat(file.fileno()).st_size))
            before, batch = position, list[RawLine]()
            for raw in raws:
                batch.append(raw)
                position = raw.end
                if raw.end - before >= CHUNK:
                    break
            else:
                position = end
        yield _plain(batch, secrets)


def last_lines(path: Path, count: int, secrets: tuple[str, ...] = ()) -> list[str]:
    """The last lines of a log that say something, for a diagnosis: cleaned and masked, equal ones in a row once."""
    if not path.exists():
        return []
    lines = read_back(path, 2 * count + 1, secrets).lines  # blank ones fold: they are half of them at most
    return [line.text for line in lines if line.text.strip() and line.note != LEFT_OUT][-count:]


def _may_hold(descriptor: int, begin: int, end: int, data: int, wanted: Wanted) -> bool:
    """Whether the lines of `[begin, end)` can be among the wanted; a look at the bytes, a hundred times faster than at lines."""
    if wanted.everything or data > 2 * CHUNK:
        return True
    raw = os.pread(descriptor, end - begin, begin) if end - begin <= 2 * CHUNK else b""
    if not raw or b"\x1b" in raw or len(raw.translate(None, _CONTROL)) != len(raw):
        return True  # what stands apart in the bytes may stand together once they are cleaned
    if wanted.level != INFO and not any(hint in raw for hint in HINTS):
        return False
    if not wanted.q or "*" in wanted.q:  # stars may be those of a mask
        return True
    if wanted.q.isascii():
        return wanted.q.lower().encode() in raw.lower()
    return wanted.q.casefold() in raw.decode("utf-8", "replace").casefold()


def _stretch(descriptor: int, begin: int, end: int, secrets: tuple[str, ...], wanted: Wanted) -> list[LogLine]:
    levels = Levels()
    for raw in RawLines(descriptor, max(0, begin - _WARM_UP), begin) if begin else ():
        if raw.data is not None:
            levels.feed(clean(raw.data))
    return list(fold(RawLines(descriptor, begin, end), secrets, levels, wanted))


def _plain(raws: list[RawLine], secrets: tuple[str, ...]) -> str:
    """The lines as text; together where nothing has to be seen to in single ones, which is ten times faster."""
    if all(raw.finished and not raw.cut and raw.data is not None for raw in raws):
        data = b"".join(raw.data + b"\n" for raw in raws if raw.data is not None)
        if b"\r" not in data and b"\x1b" not in data and len(data.translate(None, _CONTROL)) == len(data):
            return redact(data.decode("utf-8", "replace"), secrets)
    return "".join(_plain_line(raw, secrets) for raw in raws)


def _plain_line(raw: RawLine, secrets: tuple[str, ...]) -> str:
    if raw.data is None:
        return left_out(raw.end - raw.offset) + "\n"
    text = clean(raw.data, secrets, unfinished=not raw.finished)
    return (shorten(text, more=True) if raw.cut else text) + ("\n" if raw.finished else "")


def _join(earlier: list[LogLine], later: list[LogLine]) -> list[LogLine]:
    if earlier and later and earlier[-1].takes(later[0]):
        return earlier + later[1:]
    return earlier + later


def _finished(descriptor: int, size: int) -> int:
    """Where the last line begins that has no end yet; `size` where there is none, or one too long to be waited for."""
    begin = max(0, size - LONGEST)
    found = os.pread(descriptor, size - begin, begin).rfind(b"\n")
    return begin + found + 1 if found >= 0 or begin == 0 else size


def _line_start(descriptor: int, position: int) -> int:
    """The first start of a line at or after `position`, looked for within a MiB."""
    if position <= 0:
        return 0
    found = os.pread(descriptor, CHUNK, position - 1).find(b"\n")
    return position if found < 0 else position + found
