"""One database behind two kinds of session: read-only ones, and write ones that begin immediately.

A deferred SQLite transaction that reads and then writes fails at once with "locked" under any concurrency, whatever the
busy timeout (measured: 57 of 80); one that begins immediately waits its turn (80 of 80). So a write session takes the
write lock first. Raising inside a session rolls back; leaving it normally commits.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url
from sqlmodel import Session, create_engine

BUSY_TIMEOUT_S = 30


class Database:
    """The engine, and the two ways to talk to it.

    Args:
        url: an SQLAlchemy URL; `sqlite:///path/file.db` or `postgresql+psycopg://…` (plain `postgresql://` is read as that).
        synchronous: SQLite's durability; FULL, so that a machine that dies loses no committed result.
    """

    def __init__(self, url: str, *, synchronous: str = "FULL") -> None:
        parsed = make_url(url)
        if parsed.drivername in {"postgresql", "postgres"}:
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.url = parsed
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        options: dict[str, Any] = {}
        if self.is_sqlite:
            if parsed.database:
                Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
            options = {"connect_args": {"check_same_thread": False, "timeout": BUSY_TIMEOUT_S}, "pool_size": 20}
        else:
            options = {"pool_size": 20, "max_overflow": 20, "pool_pre_ping": True}
        self.engine: Engine = create_engine(parsed, **options)
        if self.is_sqlite:
            _configure_sqlite(self.engine, synchronous)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that only reads; nothing it changes is kept."""
        with Session(self.engine, autoflush=False, expire_on_commit=False) as session:
            yield session
            session.expunge_all()  # a rollback expires what it still holds: rows would be unreadable after the block
            session.rollback()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that holds the write lock from its start and commits when the block ends without an error."""
        with Session(self.engine, expire_on_commit=False) as session:
            session.connection(execution_options={"draftmill_write": True})
            yield session
            session.commit()

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _configure_sqlite(engine: Engine, synchronous: str) -> None:
    @event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN is deferred; ours, below, is not
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            f"busy_timeout={BUSY_TIMEOUT_S * 1000}",
            "temp_store=MEMORY",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()
        connection.create_function("draftmill_contains", 2, _contains, deterministic=True)

    @event.listens_for(engine, "reset")
    def on_reset(connection: sqlite3.Connection, _record: object, _state: object) -> None:
        if connection.in_transaction:  # a COMMIT that failed leaves it open, and SQLAlchemy takes it for over
            connection.rollback()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Any) -> None:
        immediate = connection.get_execution_options().get("draftmill_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _contains(text: str | None, lowered: str) -> bool:
    """Substring without regard to case, for what SQLite's LIKE cannot fold (it knows ASCII letters only)."""
    return text is not None and lowered in text.lower()
