"""Where a reader of a backend's log stands: which start's log, and how many bytes of it they have."""

from sqlmodel import Session

from db.tables import BackendStart
from inference.backends import service
from inference.backends.logs.reading import log_file, read_from
from inference.settings import Settings

FIRST_BYTES = 65_536
"""How much of a log a new reader is given from its end."""


def end_position(settings: Settings, start: BackendStart | None) -> str:
    """`start-offset` of the log's end now; empty where there is no log."""
    path = log_file(settings, start)
    return f"{start.id}-{path.stat().st_size}" if path is not None and start is not None else ""


def read_on(session: Session, settings: Settings, backend_id: int, start_id: int, offset: int) -> tuple[int, int, str]:
    """What comes after a position; a former start's log is read to its end before the current one's begins.

    Args:
        session: to read with.
        settings: its data directory bounds where logs lie.
        backend_id: whose log.
        start_id: 0 for a new reader, who is given the current log's end.
        offset: bytes already told.

    Returns:
        Start id, next byte offset, text (whole lines, keys masked).
    """
    backend = service.get_backend(session, backend_id)
    secrets = service.known_secrets(backend)
    current = service.current_start(session, backend)
    if current is None or current.id is None:
        return 0, 0, ""
    if start_id and start_id != current.id:
        former = session.get(BackendStart, start_id)
        if former is not None and former.backend_id == backend_id:
            text, reached = read_from(settings, former, offset, secrets=secrets)
            if text:
                return start_id, reached, text
        return current.id, 0, ""
    cut = 0
    if not start_id:
        path = log_file(settings, current)
        offset = cut = max(0, path.stat().st_size - FIRST_BYTES) if path is not None else 0
    text, reached = read_from(settings, current, offset, secrets=secrets)
    if cut:
        text = text.partition("\n")[2]
    return current.id, reached, text
