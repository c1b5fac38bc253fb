"""What the servers' figures were and are: the last of each backend in its row, thinned readings in a table for the charts.

Figures come every few seconds from every server, and a database that is synced to disk at each commit must not notice: one
small transaction for all of them, not oftener than `WRITE_S`, and none where nothing changed but the time.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import CursorResult, delete, insert, null, update
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col

from db.engine import Database
from db.tables import Backend, BackendFigure
from db.types import now
from inference.backends.server.figures import Reading

log = structlog.get_logger(__name__)

WRITE_S = 2.0
"""At least so long between two transactions"""
STEADY_S = 30.0
"""Figures that did not change are written this often, so that their time shows that somebody still looks."""
KEEP_EVERY_S = 10.0
"""One reading for the charts of so many seconds"""
KEEP = timedelta(hours=6)
PRUNE_S = 300.0


@dataclass(slots=True)
class _Entry:
    """One backend's figures, and what of them was written when (monotonic)."""

    reading: Reading | None
    written: tuple[float | None, ...] | None = None
    written_at: float = float("-inf")
    kept: tuple[float | None, ...] | None = None
    kept_at: float = float("-inf")
    dropped: bool = False

    def due(self, at: float) -> bool:
        """Whether the row is to be written: something changed, or it is a while ago."""
        if self.reading is None:
            return self.dropped
        return self.reading.values() != self.written or at - self.written_at >= STEADY_S

    def due_to_keep(self, at: float) -> bool:
        """Whether a point of the charts is due."""
        if self.reading is None:
            return False
        since = at - self.kept_at
        return since >= STEADY_S or (since >= KEEP_EVERY_S and self.reading.values() != self.kept)


class FigureBook:
    """Keeps the figures of all backends of one data directory.

    Args:
        database: where they are written.
        clock: seconds that only go forward; the seam for tests.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = database
        self._clock = clock
        self._entries: dict[int, _Entry] = {}
        self._next_write = float("-inf")
        self._next_prune = float("-inf")

    def add(self, backend_id: int, reading: Reading) -> None:
        """Take a reading; it is written by the next `flush` that is due."""
        entry = self._entries.setdefault(backend_id, _Entry(reading))
        entry.reading, entry.dropped = reading, False

    def latest(self, backend_id: int) -> Reading | None:
        """The last reading taken."""
        entry = self._entries.get(backend_id)
        return entry.reading if entry is not None else None

    def drop(self, backend_id: int) -> None:
        """The server is gone: it has no figures any more; those of before stay in the charts."""
        entry = self._entries.setdefault(backend_id, _Entry(None))
        entry.reading, entry.dropped = None, True

    @property
    def dirty(self) -> bool:
        """Whether `flush` would write something now."""
        at = self._clock()
        return at >= self._next_write and any(
            entry.due(at) or entry.due_to_keep(at) for entry in self._entries.values()
        )

    async def flush(self) -> None:
        """Write what is due, in one transaction; nothing where nothing is. A database that is away is tried again."""
        if not self.dirty:
            return
        at = self._clock()
        keep = {number for number, entry in self._entries.items() if entry.due_to_keep(at)}
        due = {number: entry.reading for number, entry in self._entries.items() if number in keep or entry.due(at)}
        prune = now() - KEEP if at >= self._next_prune else None
        self._next_write = at + WRITE_S
        try:
            gone = await asyncio.to_thread(self._write, due, keep, prune)
        except SQLAlchemyError as error:
            log.warning("figures could not be written; trying again", error=str(error))
            return
        self._settle(at, due, keep, gone)
        if prune is not None:
            self._next_prune = at + PRUNE_S

    def _settle(self, at: float, due: dict[int, Reading | None], keep: set[int], gone: set[int]) -> None:
        """Note what is written; a reading taken meanwhile is due again by itself."""
        for number, reading in due.items():
            entry = self._entries[number]
            if number in gone or (reading is None and entry.dropped):
                del self._entries[number]
            elif reading is not None:
                entry.written, entry.written_at = reading.values(), at
                if number in keep:
                    entry.kept, entry.kept_at = reading.values(), at

    def _write(self, due: dict[int, Reading | None], keep: set[int], prune: datetime | None) -> set[int]:
        """Returns the backends that are no more."""
        gone, rows = set(), []
        with self._db.write() as s:
            for number, reading in sorted(due.items()):  # one order, so that two writers never wait for each other
                values = reading.to_json() if reading is not None else null()
                statement = update(Backend).where(col(Backend.id) == number).values(figures=values)
                result = s.execute(statement, execution_options={"synchronize_session": False})
                if not isinstance(result, CursorResult) or result.rowcount != 1:
                    gone.add(number)
                elif reading is not None and number in keep:
                    rows.append(_row(number, reading))
            if rows:
                s.execute(insert(BackendFigure), rows)
            if prune is not None:
                s.execute(delete(BackendFigure).where(col(BackendFigure.at) < prune))
        return gone


def _row(backend_id: int, reading: Reading) -> dict[str, object]:
    return {
        "backend_id": backend_id,
        "at": reading.at,
        "source": reading.source,
        "running": reading.running,
        "queued": reading.queued,
        "kv_usage": reading.kv_usage,
        "tokens_per_s": reading.tokens_per_s,
        "cache_hit": reading.cache_hit,
    }
