"""The book of figures writes what changed, seldom enough for a database that syncs each commit, and forgets after hours."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event, update
from sqlmodel import select

from db.engine import Database
from db.tables import Backend, BackendFigure
from db.types import now
from inference.backends.server.figures import Reading
from inference.backends.supervision.figures import KEEP, KEEP_EVERY_S, PRUNE_S, STEADY_S, WRITE_S, FigureBook

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Watched:
    """A book with a clock to turn, two backends, and a count of what reached the database."""

    def __init__(self, database: Database) -> None:
        self.db, self.time, self.commits = database, 1000.0, 0
        with database.write() as s:
            rows = [Backend(name=name, kind="managed") for name in ("one", "two")]
            s.add_all(rows)
            s.flush()
            self.one, self.two = (row.id or 0 for row in rows)
        self.book = FigureBook(database, lambda: self.time)
        event.listen(database.engine, "commit", self._count)

    def _count(self, _connection: object) -> None:
        self.commits += 1

    def rows(self, backend_id: int) -> list[BackendFigure]:
        with self.db.read() as s:
            query = select(BackendFigure).where(BackendFigure.backend_id == backend_id)
            return sorted(s.exec(query), key=lambda row: row.id or 0)

    def figures(self, backend_id: int) -> dict[str, object] | None:
        with self.db.read() as s:
            row = s.get(Backend, backend_id)
            return row.figures if row is not None else None

    async def turn(self, seconds: float) -> int:
        """Time passes, then the supervisor turns; how many transactions that made."""
        self.time += seconds
        before = self.commits
        await self.book.flush()
        return self.commits - before


@pytest.fixture
def watched(database: Database) -> Watched:
    return Watched(database)


def reading(running: int = 3, speed: float | None = 100.0) -> Reading:
    return Reading(now(), "loads", running, 0, 0.25, speed, None, 0.1)


async def test_the_last_figures_stand_in_the_row_and_in_the_charts(watched: Watched) -> None:
    taken = reading()
    watched.book.add(watched.one, taken)
    assert watched.book.latest(watched.one) == taken
    assert watched.book.latest(watched.two) is None
    assert await watched.turn(0) == 1
    assert watched.figures(watched.one) == taken.to_json()
    (row,) = watched.rows(watched.one)
    assert (row.at, row.source, row.running, row.tokens_per_s, row.cache_hit) == (taken.at, "loads", 3, 100.0, None)


async def test_a_turn_is_one_transaction_whatever_the_number_of_backends(watched: Watched) -> None:
    watched.book.add(watched.one, reading())
    watched.book.add(watched.two, reading(7))
    assert await watched.turn(0) == 1
    assert (len(watched.rows(watched.one)), len(watched.rows(watched.two))) == (1, 1)


async def test_nothing_is_written_where_only_the_time_changed_until_it_is_due(watched: Watched) -> None:
    watched.book.add(watched.one, reading())
    await watched.turn(0)
    for _ in range(int(STEADY_S / 2) - 1):
        watched.book.add(watched.one, replace(reading(), stale_s=0.2))
        assert not watched.book.dirty
        assert await watched.turn(2) == 0
    watched.book.add(watched.one, later := reading())
    assert await watched.turn(2) == 1
    assert watched.figures(watched.one) == later.to_json()


async def test_changes_are_written_no_oftener_than_may_be_and_thinned_for_the_charts(watched: Watched) -> None:
    made = 0
    for tick in range(120):  # a minute of turns, each with other figures
        watched.book.add(watched.one, reading(tick))
        made += await watched.turn(0.5)
    assert made == 60 / WRITE_S
    assert len(watched.rows(watched.one)) == 60 / KEEP_EVERY_S
    assert watched.figures(watched.one) is not None


async def test_a_server_that_is_gone_has_no_figures_but_a_past(watched: Watched) -> None:
    watched.book.add(watched.one, reading())
    await watched.turn(0)
    watched.book.drop(watched.one)
    assert watched.book.latest(watched.one) is None
    assert await watched.turn(WRITE_S) == 1
    assert watched.figures(watched.one) is None
    assert len(watched.rows(watched.one)) == 1
    assert await watched.turn(STEADY_S) == 0


async def test_a_backend_deleted_meanwhile_takes_nothing_down(watched: Watched) -> None:
    watched.book.add(watched.one, reading())
    watched.book.add(watched.two, reading())
    with watched.db.write() as s:
        s.delete(s.get(Backend, watched.one))
    await watched.turn(0)
    assert watched.rows(watched.one) == []
    assert len(watched.rows(watched.two)) == 1
    assert await watched.turn(WRITE_S) == 0


async def test_old_readings_are_forgotten(watched: Watched) -> None:
    watched.book.add(watched.one, replace(reading(), at=now() - KEEP - timedelta(minutes=1)))
    watched.book.add(watched.two, reading())
    await watched.turn(0)
    assert watched.rows(watched.one) == []  # the first write clears away what an earlier process left
    with watched.db.write() as s:
        s.execute(update(BackendFigure).values(at=now() - KEEP - timedelta(seconds=1)))
    watched.book.add(watched.two, reading(4))
    await watched.turn(PRUNE_S)
    assert [row.running for row in watched.rows(watched.two)] == [4]


async def test_a_database_that_is_away_is_tried_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.book.add(watched.one, reading())
    engine = watched.db.engine

    def refuse(*_: object, **__: object) -> None:
        from sqlalchemy.exc import OperationalError

        raise OperationalError("INSERT", {}, Exception("away"))

    event.listen(engine, "before_cursor_execute", refuse)
    assert await watched.turn(0) == 0
    event.remove(engine, "before_cursor_execute", refuse)
    assert not watched.book.dirty  # not at every turn
    assert await watched.turn(WRITE_S) == 1
    assert len(watched.rows(watched.one)) == 1
