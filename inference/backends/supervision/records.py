"""What the supervisor writes down: short transactions of their own, one for each thing that happened.

Observed states change through `db.states.move_backend` alone, which leaves an event with the sentence.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func
from sqlmodel import col, select

from db.engine import Database
from db.states import move_backend
from db.tables import Backend, BackendEvent, BackendStart
from db.types import now
from inference.backends.host.identity import Identity


@dataclass(frozen=True, slots=True)
class NewStart:
    """A start that is about to happen."""

    number: int
    command: tuple[str, ...]
    log: Path
    port: int
    weight_version: str
    url: str
    api_key: str


class Records:
    """Reads and writes of one supervisor. Every method is a transaction; none is held across a wait.

    Args:
        database: where.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def backends(self) -> list[Backend]:
        """All of them, as they stand."""
        with self._db.read() as s:
            return list(s.exec(select(Backend).order_by(col(Backend.id))))

    def last_start(self, backend: Backend) -> BackendStart | None:
        """The current or last start."""
        with self._db.read() as s:
            return s.get(BackendStart, backend.start_id) if backend.start_id is not None else None

    def next_number(self, backend_id: int) -> int:
        """The number of the next start."""
        with self._db.read() as s:
            last = s.exec(select(func.max(BackendStart.number)).where(BackendStart.backend_id == backend_id)).one()
            return (last or 0) + 1

    def ports_in_use(self) -> set[int]:
        """Ports of starts that have not ended."""
        with self._db.read() as s:
            query = select(BackendStart.port).where(col(BackendStart.ended_at).is_(None))
            return {port for port in s.exec(query) if port is not None}

    def begin_start(self, backend_id: int, new: NewStart, *, crashes: int, message: str) -> int | None:
        """Write a start down before its process exists; its id, or None where the backend was deleted."""
        with self._db.write() as s:
            backend = s.get(Backend, backend_id)
            if backend is None:
                return None
            start = BackendStart(
                backend_id=backend_id,
                number=new.number,
                command=list(new.command),
                log_path=str(new.log),
                port=new.port,
                weight_version=new.weight_version,
            )
            never_spawned = select(BackendStart).where(
                BackendStart.backend_id == backend_id, col(BackendStart.ended_at).is_(None)
            )
            for unfinished in s.exec(never_spawned):
                unfinished.ended_at, unfinished.ending = now(), "It was given up before its process was seen."
            s.add(start)
            s.flush()
            detail = {"command": shlex.join(new.command)}
            backend = move_backend(s, backend_id, "starting", message, start_id=start.id, detail=detail)
            backend.start_id = start.id
            backend.url, backend.api_key = new.url, new.api_key
            backend.restart_requested = False
            backend.crashes, backend.retry_at = crashes, None
            backend.probe = backend.server_info = backend.version = None
            backend.evidence = []
            return start.id

    def spawned(self, start_id: int, identity: Identity) -> None:
        """Write the process down."""
        with self._db.write() as s:
            start = s.get(BackendStart, start_id)
            if start is not None:
                start.pid, start.pid_started = identity.pid, identity.started

    def write(
        self,
        backend_id: int,
        *,
        state: str | None = None,
        message: str | None = None,
        start_id: int | None = None,
        start: Mapping[str, Any] | None = None,
        detail: dict[str, Any] | None = None,
        **columns: Any,
    ) -> None:
        """Write what was observed.

        Args:
            backend_id: of which backend; nothing happens where it was deleted.
            state: the observed state; a change of it becomes an event with `message` and `detail`.
            message: the sentence.
            start_id: the start that `start` changes.
            start: columns of it.
            detail: for the event.
            columns: columns of the backend.
        """
        with self._db.write() as s:
            if start_id is not None and start:
                row = s.get(BackendStart, start_id)
                if row is not None:
                    for name, value in start.items():
                        setattr(row, name, value)
            backend = s.get(Backend, backend_id)
            if backend is None:
                return
            if state is not None and state != backend.observed_state:
                backend = move_backend(
                    s, backend_id, state, message or backend.message, start_id=start_id, detail=detail
                )
            for name, value in columns.items():
                setattr(backend, name, value)
            backend.observed_at = now()
            if message is not None:
                backend.message = message

    def event(self, backend_id: int, kind: str, message: str, start_id: int | None = None) -> None:
        """Add a line of history that changes no state."""
        with self._db.write() as s:
            if s.get(Backend, backend_id) is not None:
                s.add(BackendEvent(backend_id=backend_id, start_id=start_id, kind=kind, message=message))
