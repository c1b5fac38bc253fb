"""Lines as people see them: cleaned, masked, told how grave they are, and equal ones in a row folded into one with a count."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from inference.backends.logs.following import ANSI
from inference.backends.logs.levels import INFO, LEFT_OUT, RANK, Levels
from inference.backends.logs.rawlines import RawLine
from inference.backends.logs.redaction import redact

MAX_LINE = 4_000
"""Characters of one line that are shown; SGLang's `server_args=` line alone has 12,000."""

_BEFORE_FOUND = 200
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TIME = re.compile(rb"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)")
_TIME_BYTES = 20
_KIB = 1024


@dataclass(slots=True)
class LogLine:
    """One line, or several in a row that are equal but for their time: bytes `[offset, end)` of the log."""

    offset: int
    end: int
    text: str
    level: str
    note: str = ""
    count: int = 1
    at: str | None = None
    """The server's own time of the first, as it printed it: local to it, without a zone"""
    until: str | None = None
    """Of the last"""
    key: bytes | None = None
    """What equal lines share"""

    def __str__(self) -> str:
        if self.count == 1 or not self.text:
            return self.text
        return f"{self.text}  (× {self.count:,}{', until ' + self.until[11:] if self.until else ''})"

    def takes(self, later: "LogLine") -> bool:
        """Take in an equal line that follows; False where it is another one."""
        if self.key is None or self.key != later.key:
            return False
        self.count += later.count
        self.end, self.until = later.end, later.until
        return True


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are asked for: that hold `q` (whatever the case), and are as grave as `level` or graver."""

    q: str = ""
    level: str = INFO

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.q and self.level == INFO

    def __call__(self, level: str, text: str) -> bool:
        """Whether it is one. What is looked through has its keys masked already: a search tells nothing of one."""
        return RANK[level] >= RANK[self.level] and self.q.casefold() in text.casefold()


def clean(raw: bytes, secrets: tuple[str, ...] = (), *, unfinished: bool = False) -> str:
    """One line as text: control sequences gone, keys masked, of a progress bar drawn over and over its last state; not cut."""
    text = raw.decode("utf-8", "replace")
    if not text.isprintable():
        text = _CONTROL.sub("", ANSI.sub("", text))
    text = redact(text, secrets, unfinished=unfinished)
    if "\r" in text:
        states = [state for state in text.split("\r") if state.strip()]
        text = states[-1] if states else ""
    return text


def shorten(text: str, q: str = "", *, more: bool = False) -> str:
    """The text, or its beginning and how much there is besides.

    Args:
        text: masked: of a key that is cut, nobody could tell any more that it is one.
        q: what must be seen of it; where that stands further on, what is around it instead of the beginning.
        more: it was cut before.
    """
    if len(text) <= MAX_LINE:
        return text
    found = text.casefold().find(q.casefold()) if q else 0
    begin = max(0, found - _BEFORE_FOUND) if found + len(q) > MAX_LINE else 0
    end = begin + MAX_LINE
    rest = f" … ({'many' if more else f'{len(text) - end:,}'} characters more)" if end < len(text) or more else ""
    return f"{f'({begin:,} characters before) … ' if begin else ''}{text[begin:end]}{rest}"


def left_out(count: int) -> str:
    """The words for bytes that are not there any more."""
    amount = f"{count / _KIB / _KIB:,.1f} MiB" if count >= _KIB * _KIB else f"{max(1, count // _KIB):,} KiB"
    return f"… {amount} left out here …"


def fold(
    raws: Iterable[RawLine], secrets: tuple[str, ...] = (), levels: Levels | None = None, wanted: Wanted | None = None
) -> Iterator[LogLine]:
    """The lines, equal ones in a row as one; costs next to nothing for each further one of a flood.

    Args:
        raws: in order; what follows the last of them may continue its fold.
        secrets: known keys.
        levels: what has read the lines before, where there were some.
        wanted: the others are passed over; equal lines fold also where only others lie between them.
    """
    return _Folding(secrets, levels or Levels(), wanted or Wanted()).run(raws)


class _Folding:
    def __init__(self, secrets: tuple[str, ...], levels: Levels, wanted: Wanted) -> None:
        self._secrets, self._levels, self._wanted = secrets, levels, wanted
        self._last: LogLine | None = None
        self._key: bytes | None = None
        self._kept = False

    def run(self, raws: Iterable[RawLine]) -> Iterator[LogLine]:
        for raw in raws:
            if (done := self._take(raw)) is not None:
                yield done
        if self._last is not None:
            yield self._last

    def _take(self, raw: RawLine) -> LogLine | None:
        """Take a line in; the line before, if it is complete with that."""
        time = _TIME.match(raw.data) if raw.data is not None and raw.data.startswith(b"[2") else None
        key = raw.data[_TIME_BYTES:] if raw.data is not None and time is not None else raw.data
        at = f"{time[1].decode()}T{time[2].decode()}" if time is not None else None
        if key is not None and key == self._key and raw.finished:  # whatever was said of the one before is true of it
            if self._kept and self._last is not None:
                self._last.count += 1
                self._last.end, self._last.until = raw.end, at
            return None
        self._key = key if raw.finished and not raw.cut else None
        line = self._line(raw, at)
        if line is None or (self._last is not None and self._last.takes(line)):
            return None
        done, self._last = self._last, line
        return done

    def _line(self, raw: RawLine, at: str | None) -> LogLine | None:
        if raw.data is None:
            self._kept = self._wanted.everything
            text = left_out(raw.end - raw.offset)
            return LogLine(raw.offset, raw.end, text, INFO, LEFT_OUT) if self._kept else None
        text = clean(raw.data, self._secrets, unfinished=not raw.finished)
        level, note = self._levels.feed(text)
        self._kept = self._wanted(level, text)
        if not self._kept:
            return None
        text = shorten(text, self._wanted.q, more=raw.cut)
        return LogLine(raw.offset, raw.end, text, level, note, 1, at, at, self._key)
