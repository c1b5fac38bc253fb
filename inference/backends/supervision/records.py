"""What the supervisor writes down: short transactions of their own, one for each thing that happened.

Observed states change through `db.states.move_backend` alone, which leaves an event with the sentence.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, func, select

from db.engine import Database
from db.states import move_backend
from db.tables import Backend, BackendEvent, BackendPort, BackendStart
from db.types import now
from inference.backends.host.identity import Identity
from inference.backends.launch.ports import PortBlock
from inference.backends.server.health import is_loopback


class PortsTaken(Exception):  # noqa: N818  (named for what it means)
    """Another start was given a port of ours between our look and our writing it down."""


@dataclass(frozen=True, slots=True)
class NewStart:
    """A start that is about to happen."""

    number: int
    command: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    ports: PortBlock
    weight_version: str
    url: str
    api_key: str
    host: str
    boot_id: str | None
    gpu_before: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a backend, and a mark that changes whenever somebody changed its row: what a turn looks at."""

    id: int
    desired_state: str
    restart_requested: bool
    probe_requested: bool
    kill_requested: bool
    forget_requested: bool
    updated_at: datetime


class Records:
    """Reads and writes of one supervisor. Every method is a transaction; none is held across a wait.

    Args:
        database: where.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self.touched: set[int] = set()
        """Backends whose rows were written since they were last read"""

    def wishes(self) -> list[Wish]:
        """What is asked of each backend: a few columns, so that it can be looked at twice a second."""
        with self._db.engine.connect() as connection:  # a session would cost twice as much
            rows: Sequence[Any] = connection.execute(_WISHES).all()
            return [Wish(*row) for row in rows]

    def backends(self, ids: Collection[int]) -> list[Backend]:
        """Those of them that are left, as they stand."""
        self.touched.difference_update(ids)  # before the read: what is written meanwhile is read again
        with self._db.read() as s:
            return list(s.exec(select(Backend).where(col(Backend.id).in_(ids))))

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
        """Ports that a start has, and those where an attached server is on this machine."""
        with self._db.read() as s:
            taken = set(s.exec(select(BackendPort.port)))
            unended = select(BackendStart.port).where(col(BackendStart.ended_at).is_(None))
            taken |= {port for port in s.exec(unended) if port is not None}  # those that an earlier version began
            urls = s.exec(select(Backend.url).where(Backend.kind == "attached"))
            return taken | {port for url in urls if url and (port := _loopback_port(url)) is not None}

    def begin_start(
        self, backend_id: int, new: NewStart, *, after: int | None, crashes: int, message: str
    ) -> int | None:
        """Write a start and its ports down before its process exists; its id.

        None where the backend was deleted, or where another than `after` is its last start by now: a worker that has lost
        the database and does not know it yet must not start a second process beside its successor's.

        Raises:
            PortsTaken: another start was given one of them meanwhile: pick again.
        """
        try:
            with self._db.write() as s:
                start_id = _begin(s, backend_id, new, after=after, crashes=crashes, message=message)
        except IntegrityError as error:
            raise PortsTaken(str(new.ports.http)) from error
        self.touched.add(backend_id)
        return start_id

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
            start: columns of it; its ports are free again with `ended_at`.
            detail: for the event.
            columns: columns of the backend.
        """
        matters = bool(columns.keys() - _ONLY_SHOWN)
        with self._db.write() as s:
            if start_id is not None and start:
                _change_start(s, start_id, start)
            backend = s.get(Backend, backend_id)
            if backend is None:
                return
            if state is not None and state != backend.observed_state:
                matters = True
                backend = move_backend(
                    s, backend_id, state, message or backend.message, start_id=start_id, detail=detail
                )
            for name, value in columns.items():
                setattr(backend, name, value)
            backend.observed_at = now()
            if message is not None:
                backend.message = message
        if matters:  # noted once it is committed: who reads the row in between would take the old one for the new
            self.touched.add(backend_id)

    def event(self, backend_id: int, kind: str, message: str, start_id: int | None = None) -> None:
        """Add a line of history that changes no state."""
        with self._db.write() as s:
            if s.get(Backend, backend_id) is not None:
                s.add(BackendEvent(backend_id=backend_id, start_id=start_id, kind=kind, message=message))


def _begin(s: Session, backend_id: int, new: NewStart, *, after: int | None, crashes: int, message: str) -> int | None:
    backend = s.get(Backend, backend_id, with_for_update=True)
    if backend is None or backend.start_id != after:
        return None
    never_spawned = select(BackendStart).where(
        BackendStart.backend_id == backend_id, col(BackendStart.ended_at).is_(None), col(BackendStart.pid).is_(None)
    )
    for unfinished in s.exec(never_spawned):
        _change_start(
            s,
            unfinished.id or 0,
            {"ended_at": now(), "ending": "It was given up before its process was seen."},
        )
    start = BackendStart(
        backend_id=backend_id,
        number=new.number,
        command=list(new.command),
        environment=new.environment,
        log_path=str(new.log),
        port=new.ports.http,
        nccl_port=new.ports.nccl,
        weight_version=new.weight_version,
        host=new.host,
        boot_id=new.boot_id,
        gpu_before=new.gpu_before,
    )
    s.add(start)
    s.flush()
    start_id = start.id or 0
    s.add_all(BackendPort(port=port, start_id=start_id, purpose=purpose) for port, purpose in new.ports.claims())
    s.flush()
    detail = {"command": shlex.join(new.command)}
    backend = move_backend(s, backend_id, "starting", message, start_id=start_id, detail=detail)
    backend.start_id = start_id
    backend.url, backend.api_key = new.url, new.api_key
    backend.restart_requested = backend.kill_requested = backend.forget_requested = False
    backend.crashes, backend.retry_at, backend.deadline_at = crashes, None, None
    backend.probe = backend.server_info = backend.version = backend.figures = backend.breaker = None
    backend.evidence = []
    return start_id


def _change_start(s: Session, start_id: int, columns: Mapping[str, Any]) -> None:
    start = s.get(BackendStart, start_id)
    if start is None:
        return
    for name, value in columns.items():
        setattr(start, name, value)
    if columns.get("ended_at") is not None:
        s.execute(sa.delete(BackendPort).where(col(BackendPort.start_id) == start_id))


def _loopback_port(url: str) -> int | None:
    try:
        return urlsplit(url).port if is_loopback(url) else None
    except ValueError:
        return None


_ONLY_SHOWN = frozenset({"evidence", "phase"})
"""Columns that nobody who keeps a backend reads: a row in which only they changed need not be read again."""

_WISHES = sa.select(
    col(Backend.id),
    col(Backend.desired_state),
    col(Backend.restart_requested),
    col(Backend.probe_requested),
    col(Backend.kill_requested),
    col(Backend.forget_requested),
    col(Backend.updated_at),
)
