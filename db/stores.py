"""Where ids lie: a SQLite file per run beside a SQLite database, a `bytea` table inside PostgreSQL.

A file per run keeps a hundred gigabytes of ids out of the one database file, where each migration and backup would have to
carry them, and makes forgetting a run the removal of a file. Both stores commit before `put` returns (`synchronous=FULL`),
a batch as a whole or not at all.
"""

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from sqlalchemy import ColumnElement, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert

import db.tables as t
from db.codec import decode, encode
from db.engine import BUSY_TIMEOUT_S, Database
from db.idstore import AttemptIds, IdStore, Key

_OPEN_WRITERS = 8
_PAGE_BYTES = 16_384  # a blob of 2,000 ids is 4 KB: small pages would spill each into a chain of overflow pages
_FETCH = 200
_PUT = "INSERT OR REPLACE INTO ids (sample_id, attempt, blob) VALUES (?, ?, ?)"
_GET = "SELECT blob FROM ids WHERE sample_id = ? AND attempt = ?"


def open_id_store(db: Database, data_dir: Path) -> IdStore:
    """The id store that goes with this database: files below `data_dir/ids`, or the database itself on PostgreSQL."""
    return FileIdStore(data_dir / "ids") if db.is_sqlite else TableIdStore(db)


class FileIdStore:
    """One SQLite file per run, `run-<id>.sqlite` in `folder`.

    Several processes may use it at once: readers open the file for each call, the writer keeps a few files open. A file
    removed behind the writer's back (its run was deleted, another took its number) is noticed and made anew.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._writers: OrderedDict[int, tuple[int, sqlite3.Connection]] = OrderedDict()

    def put(self, run_id: int, items: Sequence[tuple[Key, AttemptIds]]) -> None:
        """Store all, durably, before returning."""
        rows = [(*key, encode(key, ids)) for key, ids in items]
        if not rows:
            return
        with self._lock:
            connection = self._writer(run_id)
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(_PUT, rows)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def get(self, run_id: int, key: Key) -> AttemptIds | None:
        """One attempt's ids, or None where none were stored.

        Raises:
            IdsCorrupted: what is stored is not what was written.
        """
        return next((ids for _, ids in self.get_many(run_id, [key])), None)

    def get_many(self, run_id: int, keys: Iterable[Key]) -> Iterator[tuple[Key, AttemptIds]]:
        """Those that exist, in the order asked; each is read when it is asked for.

        Raises:
            IdsCorrupted: what is stored is not what was written.
        """
        path = self._path(run_id)
        if not path.exists():
            return
        with closing(_connect(path, read_only=True)) as connection:
            for key in keys:
                row = connection.execute(_GET, key).fetchone()
                if row is not None:
                    yield key, decode(key, row[0])

    def drop(self, run_id: int) -> None:
        """Forget a run's ids: its file is removed."""
        with self._lock:
            known = self._writers.pop(run_id, None)
            if known is not None:
                known[1].close()
            path = self._path(run_id)
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            while self._writers:
                self._writers.popitem()[1][1].close()

    def _path(self, run_id: int) -> Path:
        return self._folder / f"run-{run_id}.sqlite"

    def _writer(self, run_id: int) -> sqlite3.Connection:
        path = self._path(run_id)
        known = self._writers.get(run_id)
        if known is not None:
            inode, connection = known
            if path.exists() and path.stat().st_ino == inode:
                self._writers.move_to_end(run_id)
                return connection
            del self._writers[run_id]
            connection.close()
        if not path.exists():
            _create(path)
        connection = _connect(path, read_only=False)
        self._writers[run_id] = (path.stat().st_ino, connection)
        if len(self._writers) > _OPEN_WRITERS:
            self._writers.popitem(last=False)[1][1].close()
        return connection


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=BUSY_TIMEOUT_S,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _create(path: Path) -> None:
    """Make the file under another name and link it into place: nobody ever meets one that is half made."""
    draft = path.with_name(f".{path.stem}-{os.getpid()}-{threading.get_ident()}.new")
    draft.unlink(missing_ok=True)
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(
            "CREATE TABLE ids (sample_id INTEGER NOT NULL, attempt INTEGER NOT NULL, blob BLOB NOT NULL, "
            "UNIQUE (sample_id, attempt))"
        )
    with suppress(FileExistsError):  # another process made it meanwhile: theirs is as good
        os.link(draft, path)
    draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name must outlive a power cut as surely as the rows do
    finally:
        os.close(folder)


class TableIdStore:
    """The `payloads` table of a PostgreSQL database, in transactions of its own."""

    def __init__(self, db: Database) -> None:
        self._engine = db.engine
        self._table = t.Payload.metadata.tables["payloads"]

    def put(self, run_id: int, items: Sequence[tuple[Key, AttemptIds]]) -> None:
        """Store all, durably, before returning."""
        # a key given twice keeps its last value, and a fixed order keeps two writers from waiting for each other in a ring
        blobs = {key: encode(key, ids) for key, ids in items}
        if not blobs:
            return
        rows = [{"run_id": run_id, "sample_id": key[0], "attempt": key[1], "blob": blobs[key]} for key in sorted(blobs)]
        statement = insert(self._table)
        statement = statement.on_conflict_do_update(
            index_elements=["run_id", "sample_id", "attempt"], set_={"blob": statement.excluded.blob}
        )
        with self._engine.begin() as connection:
            connection.execute(statement, rows)

    def get(self, run_id: int, key: Key) -> AttemptIds | None:
        """One attempt's ids, or None where none were stored.

        Raises:
            IdsCorrupted: what is stored is not what was written.
        """
        return next((ids for _, ids in self.get_many(run_id, [key])), None)

    def get_many(self, run_id: int, keys: Iterable[Key]) -> Iterator[tuple[Key, AttemptIds]]:
        """Those that exist, in the order asked; read in batches.

        Raises:
            IdsCorrupted: what is stored is not what was written.
        """
        c = self._table.c
        pending = iter(keys)
        while batch := list(islice(pending, _FETCH)):
            wanted: ColumnElement[bool] = tuple_(c.sample_id, c.attempt).in_(batch)
            with self._engine.connect() as connection:
                rows = connection.execute(
                    select(c.sample_id, c.attempt, c.blob).where(c.run_id == run_id, wanted)
                ).all()
            found = {(row.sample_id, row.attempt): row.blob for row in rows}
            for key in batch:
                if key in found:
                    yield key, decode(key, found[key])

    def drop(self, run_id: int) -> None:
        """Forget a run's ids."""
        with self._engine.begin() as connection:
            connection.execute(delete(self._table).where(self._table.c.run_id == run_id))

    def close(self) -> None:
        """Nothing of its own to release: the connections are the database's."""
