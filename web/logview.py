"""A server's log on its page: which start's, which lines, and where to go on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from sqlmodel import Session, col, select

from db.errors import NotFound
from db.tables import Backend, BackendStart
from inference.backends import lives, service
from inference.backends.logs.folding import LogLine, Wanted
from inference.backends.logs.levels import INFO, LEVELS
from inference.backends.logs.reading import log_file, read_back
from inference.settings import Settings

SHOWN = 200
"""Lines drawn with the page; the stream brings the rest"""

OFFERED = 50
"""Starts to choose from"""

MAX_Q = 200
_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class LogPanel:
    """What the log's part of the page shows."""

    managed: bool
    lines: Sequence[LogLine] = ()
    position: int = 0
    """Lines from here on have no end yet"""
    starts: Sequence[tuple[int, str]] = ()
    """Number and words of the starts to choose from, newest first"""
    start: int | None = None
    chosen: bool = False
    """Whether a start was asked for by its number"""
    q: str = ""
    level: str = INFO
    kept: bool = False
    """Whether there is a log to read"""
    older: str = ""
    """Query of the page of older lines, where there are some"""
    newest: str = ""
    """Query of the newest lines, where these are older ones"""
    stream: str = ""
    """Query of the stream that goes on from here; empty where nothing more comes"""


def log_panel(session: Session, settings: Settings, backend: Backend, asked: Mapping[str, str]) -> LogPanel:
    """The panel for a query of `start`, `q`, `level` and `before`; what cannot be read of it is as if it were not there.

    Raises:
        NotFound: there is no start of that number.
    """
    if backend.kind != "managed":
        return LogPanel(managed=False)
    wanted = Wanted(asked.get("q", "").strip()[:MAX_Q], asked["level"] if asked.get("level") in LEVELS else INFO)
    number, before = asked.get("start", ""), _number(asked.get("before", ""))
    if number and _number(number) is None:
        raise NotFound("start", f"{number[:20]!r} of backend {backend.name}")
    row = lives.find_start(session, backend, _number(number))
    path = log_file(settings, row)
    found = read_back(path, SHOWN, service.known_secrets(backend), wanted, before)
    current = row is not None and row.id == backend.start_id
    kept = {"start": number, "q": wanted.q, "level": wanted.level if wanted.level != INFO else ""}
    return LogPanel(
        managed=True,
        lines=found.lines,
        position=found.position,
        starts=_offered(session, backend),
        start=row.number if row is not None else None,
        chosen=bool(number),
        q=wanted.q,
        level=wanted.level,
        kept=path is not None,
        older=_query(kept, before=str(found.before)) if found.before is not None else "",
        newest=_query(kept) or "?" if before is not None else "",
        stream=_query({"form": "lines", "from": lives.position_of(row, found.position)})
        if (current or row is None) and before is None
        else "",
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def _query(values: Mapping[str, str], **more: str) -> str:
    given = {name: value for name, value in {**values, **more}.items() if value}
    return f"?{urlencode(given)}" if given else ""


def _offered(session: Session, backend: Backend) -> list[tuple[int, str]]:
    query = (
        select(BackendStart)
        .where(BackendStart.backend_id == backend.id)
        .order_by(col(BackendStart.number).desc())
        .limit(OFFERED)
    )
    return [(row.number, _words(row)) for row in session.exec(query)]


def _words(row: BackendStart) -> str:
    how = "ended" if row.ended_at is not None else "runs"
    return f"Start {row.number}, {row.started_at:%Y-%m-%d %H:%M} UTC, {'failed' if row.error else how}"
