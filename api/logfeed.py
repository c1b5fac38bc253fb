"""Where a reader of a backend's log stands: which start's log, and how many bytes of it they have."""

from dataclasses import dataclass

from sqlmodel import Session

from db.tables import BackendStart
from inference.backends import service
from inference.backends.logs.reading import Lines, first_position, log_file, read_on
from inference.settings import Settings

FIRST_BYTES = 65_536
"""How much of a log a new reader is given from its end."""


@dataclass(frozen=True, slots=True)
class News:
    """What comes after a position: of which start's log, and whether another one's follows at once."""

    start_id: int
    found: Lines
    ended: bool = False
    """This start's log is told to its end, and another start's has begun"""


def what_follows(session: Session, settings: Settings, backend_id: int, start_id: int, offset: int) -> News:
    """What comes after a position; a former start's log is read to its end before the current one's begins.

    Args:
        session: to read with.
        settings: its data directory bounds where logs lie.
        backend_id: whose log.
        start_id: 0 for a new reader, who is given the current log's end.
        offset: bytes already told.
    """
    backend = service.get_backend(session, backend_id)
    secrets = service.known_secrets(backend)
    current = service.current_start(session, backend)
    if current is None or current.id is None:
        return News(0, Lines())
    if start_id and start_id != current.id:
        former = session.get(BackendStart, start_id)
        if former is not None and former.backend_id == backend_id:
            found = read_on(log_file(settings, former), offset, secrets)
            if found.lines:
                return News(start_id, found)
        return News(current.id, Lines(), ended=True)
    path = log_file(settings, current)
    begin = offset if start_id else first_position(path, FIRST_BYTES)
    return News(current.id, read_on(path, begin, secrets))
