"""One worker per database, whatever data directory it has: a lock that ends with whoever holds it, however that goes.

SQLite: a lock of the kernel on a file beside the database. PostgreSQL: an advisory lock of the session, on a connection of its
own that a thread watches; a connection that dies takes the lock with it, so the holder is told at once and must let go. (A
pooler that hands one connection to many, transaction by transaction, would break that: connect to PostgreSQL itself.)
"""

import contextlib
import fcntl
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
import structlog
from sqlalchemy.engine import URL

from db.engine import Database

log = structlog.get_logger(__name__)

KEY: Final = 0x447261_66746D69
"""The advisory lock's number: the same in every version, and nobody else's by chance."""

RETRY_S: Final = 1.0
WATCH_S: Final = 2.0
"""Between questions over the watched connection; its end is seen at once besides."""
ANSWER_S: Final = 5.0
"""A server that does not answer so long counts as lost; its own patience with us is longer (`_SESSION`)."""
GRACE_S: Final = 3.0
"""Who had to wait begins so long after the lock was free: the one before may have to learn first that it is not the holder."""

_SESSION: Final = (
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 4",
    "SET idle_session_timeout = 0",
    "SET statement_timeout = 0",
)


class NotExclusive(Exception):  # noqa: N818  (named for what it means)
    """Nobody wants the lock any more."""


class Exclusive:
    """The lock as it is held: `lost` is set once it may be another's."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        self._tell: Callable[[], object] | None = None
        self._mutex = threading.Lock()

    def when_lost(self, tell: Callable[[], object]) -> None:
        """Call `tell`, from another thread, once the lock is lost; at once if it is already."""
        with self._mutex:
            self._tell = tell
            lost = self.lost.is_set()
        if lost:
            tell()

    def lose(self) -> None:
        """It is another's, or may be."""
        with self._mutex:
            if self.lost.is_set():
                return
            self.lost.set()
            tell = self._tell
        if tell is not None:
            with contextlib.suppress(RuntimeError):  # its event loop is closed: it has let go already
                tell()


@contextmanager
def exclusive(
    database: Database, *, gone: Callable[[], bool] = lambda: False, waiting: Callable[[str], object] = lambda _: None
) -> Iterator[Exclusive]:
    """Hold the database against other workers; waits, for as long as it takes, while another holds it.

    Args:
        database: an SQLite file or a PostgreSQL database; one in memory has no other holder.
        gone: checked while waiting; true means that nobody wants this one any more.
        waiting: called once with a sentence, where another holds it.

    Raises:
        NotExclusive: nobody waits for it any more.
    """
    if not database.is_sqlite:
        with _advisory(database.url, gone, waiting) as held:
            yield held
    elif database.url.database and database.url.database != ":memory:":
        with _beside(Path(database.url.database), gone, waiting) as held:
            yield held
    else:
        yield Exclusive()


@contextmanager
def _beside(path: Path, gone: Callable[[], bool], waiting: Callable[[str], object]) -> Iterator[Exclusive]:
    path = path.resolve()
    descriptor = os.open(path.with_name(f"{path.name}.worker.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        if not take():
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            waiting(f"another worker (pid {holder}) works on {path}")
            _wait_for(take, gone)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield Exclusive()
    finally:
        os.close(descriptor)


@contextmanager
def _advisory(url: URL, gone: Callable[[], bool], waiting: Callable[[str], object]) -> Iterator[Exclusive]:
    connection: psycopg.Connection | None = None
    said = False

    def take() -> bool:
        nonlocal connection, said
        try:
            if connection is None:
                connection = _connect(url)
            taken = connection.execute("SELECT pg_try_advisory_lock(%s)", (KEY,)).fetchone() == (True,)
        except psycopg.OperationalError as error:
            if connection is not None:
                connection.close()
            connection, taken = None, False
            log.warning("the database cannot be asked for its lock; trying again", error=str(error).strip())
        if not taken and not said and connection is not None:
            said = True
            waiting(f"another worker ({_holder(connection)}) works on the database {url.database}")
        return taken

    try:
        if not take():
            _wait_for(take, gone)
        if connection is None:
            raise NotExclusive("the connection that took the lock is gone")
        held = Exclusive()
        stop_reading, stop_writing = os.pipe()
        watcher = threading.Thread(target=_watch, args=(connection, stop_reading, held), daemon=True, name="db-lock")
        watcher.start()
        try:
            yield held
        finally:
            os.close(stop_writing)
            watcher.join(ANSWER_S * 2)
            os.close(stop_reading)
    finally:
        if connection is not None:
            connection.close()


def _connect(url: URL) -> psycopg.Connection:
    """A connection for the lock alone, that notices a dead network within seconds, as its server does a little later."""
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    connection = psycopg.connect(
        plain,
        autocommit=True,
        application_name=f"draftmill worker {os.uname().nodename} {os.getpid()}"[:63],
        connect_timeout=10,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )
    for statement in _SESSION:
        with contextlib.suppress(psycopg.DatabaseError):  # an older server does not have all of them
            connection.execute(statement)
    return connection


def _holder(connection: psycopg.Connection) -> str:
    """Who holds the lock, by the name it gave; the server may keep that to itself."""
    row = connection.execute(
        "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = %s AND l.objid::bigint = %s",
        (KEY >> 32, KEY & 0xFFFFFFFF),
    ).fetchone()
    return str(row[0]).removeprefix("draftmill worker ") if row is not None and row[0] else "of another machine"


def _watch(connection: psycopg.Connection, stop: int, held: Exclusive) -> None:
    """Until `stop` is closed: the connection lives and answers, or the lock is lost."""
    try:
        socket = connection.fileno()
        while True:
            readable, _, _ = select.select([socket, stop], [], [], WATCH_S)
            if stop in readable:
                return
            connection.pgconn.send_query(b"SELECT 1")
            if not _answered(connection, socket):
                break
    except (psycopg.Error, OSError, ValueError) as error:
        log.warning("the connection that holds the database's lock is lost", error=str(error).strip())
    held.lose()


def _answered(connection: psycopg.Connection, socket: int) -> bool:
    """Whether the query that was sent is answered in time, and well."""
    deadline = time.monotonic() + ANSWER_S
    good = False
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([socket], [], [], left)[0]:
            return False
        connection.pgconn.consume_input()
        while not connection.pgconn.is_busy():
            result = connection.pgconn.get_result()
            if result is None:
                return good
            good = result.status == psycopg.pq.ExecStatus.TUPLES_OK
    return False


def _wait_for(take: Callable[[], bool], gone: Callable[[], bool]) -> None:
    """Until it is ours, and a little longer."""
    while True:
        if gone():
            raise NotExclusive("Nobody waits for this worker any more.")
        if take():
            break
        time.sleep(RETRY_S)
    time.sleep(GRACE_S)
