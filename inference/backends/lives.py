"""Each start of a backend, from its launch to its end, and what its log says: as pages and scripts see them."""

from datetime import datetime
from pathlib import Path
from typing import Literal

from sqlmodel import Session, col, select

from db.errors import NotFound
from db.queries.pages import page_by_id
from db.tables import Backend, BackendStart
from inference.backends.logs.folding import LogLine
from inference.backends.logs.reading import Lines, log_file
from inference.backends.service import current_start, get_backend
from inference.backends.views import BackendErrorView, PassedPhaseView
from inference.model import Page, View
from inference.settings import Settings

Level = Literal["info", "warning", "error"]


class LifeView(View):
    """One start. Times are ours; `log_bytes` is None where its log is not kept any more."""

    number: int
    started_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    ending: str | None
    """How it ended, in words"""
    error: BackendErrorView | None
    """The diagnosis, where it did not end as asked"""
    port: int | None
    phases: list[PassedPhaseView]
    log_bytes: int | None


class LogLineView(View):
    """A line of a log, or several in a row that are equal but for their time; `offset` is the first one's, in bytes."""

    offset: int
    at: str | None
    """The server's own local time of the first, as it printed it"""
    until: str | None
    """Of the last of `count`"""
    level: Level
    note: str
    """`health check`, `figures` (somebody asked for live figures), `left out` (bytes that are not kept), or empty"""
    count: int
    text: str

    @classmethod
    def of(cls, line: LogLine) -> "LogLineView":
        """The line as scripts see it."""
        level: Level = "error" if line.level == "error" else "warning" if line.level == "warning" else "info"
        return cls(
            offset=line.offset,
            at=line.at,
            until=line.until,
            level=level,
            note=line.note,
            count=line.count,
            text=line.text,
        )


class LogView(View):
    """Some lines of one start's log, oldest first. `before` finds what is older; `position` is where `logs/stream?from=` goes on."""

    start: int | None
    """The start's number; None where there was none yet"""
    position: str
    before: int | None
    lines: list[LogLineView]


def find_start(s: Session, backend: Backend, number: int | None) -> BackendStart | None:
    """The start of that number, or the current or last one; None where nothing was started yet.

    Raises:
        NotFound: this backend has no start of that number.
    """
    if number is None:
        return current_start(s, backend)
    query = select(BackendStart).where(BackendStart.backend_id == backend.id, BackendStart.number == number)
    found = s.exec(query).first()
    if found is None:
        raise NotFound("start", f"{number} of backend {backend.name}")
    return found


def list_lives(s: Session, settings: Settings, backend_id: int, after: str | None, limit: int) -> Page[LifeView]:
    """All starts, newest first; `after` is the `next` of the page before.

    Raises:
        NotFound: there is no such backend.
        Invalid: `bad_cursor` or `bad_limit`.
    """
    get_backend(s, backend_id)
    query = select(BackendStart).where(BackendStart.backend_id == backend_id)
    rows, following = page_by_id(s, query, col(BackendStart.id), after, limit, descending=True)
    return Page(items=[_life(settings, row) for row in rows], next=following)


def log_view(start: BackendStart | None, found: Lines) -> LogView:
    """What was read of a start's log, for scripts."""
    return LogView(
        start=start.number if start is not None else None,
        position=position_of(start, found.position),
        before=found.before,
        lines=[LogLineView.of(line) for line in found.lines],
    )


def position_of(start: BackendStart | None, offset: int) -> str:
    """`start-offset`, where a stream of the log goes on; empty where there is no start."""
    return f"{start.id}-{offset}" if start is not None else ""


def _life(settings: Settings, row: BackendStart) -> LifeView:
    path = log_file(settings, row)
    return LifeView(
        number=row.number,
        started_at=row.started_at,
        ready_at=row.ready_at,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        ending=row.ending,
        error=BackendErrorView.model_validate(row.error) if row.error else None,
        port=row.port,
        phases=[PassedPhaseView.model_validate(phase) for phase in row.phases],
        log_bytes=_size(path) if path is not None else None,
    )


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:  # it was removed just now
        return None
