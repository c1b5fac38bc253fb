"""Two workers never work on one database, whatever data directories they have."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from db.engine import Database
from db.exclusive import KEY, Exclusive, NotExclusive, exclusive
from tests.support.databases import PostgresCluster

PATIENCE_S = 60.0


class Waiting:
    """A second worker in a thread: `said` is what it said while it waited, `has` is set once the lock is its own."""

    def __init__(self, database: Database) -> None:
        self.said: list[str] = []
        self.stands_by = threading.Event()
        self.has = threading.Event()
        self.gave_up = threading.Event()
        self.unwanted = threading.Event()
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(database,))
        self._thread.start()

    def _run(self, database: Database) -> None:
        try:
            with exclusive(database, gone=self.unwanted.is_set, waiting=self._waits):
                self.has.set()
                self.done.wait(PATIENCE_S)
        except NotExclusive:
            self.gave_up.set()

    def _waits(self, sentence: str) -> None:
        self.said.append(sentence)
        self.stands_by.set()

    def end(self) -> None:
        self.done.set()
        self.unwanted.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@contextmanager
def second(database: Database) -> Iterator[Waiting]:
    waiting = Waiting(database)
    try:
        yield waiting
    finally:
        waiting.end()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("db.exclusive.RETRY_S", 0.05)
    monkeypatch.setattr("db.exclusive.GRACE_S", 0.0)
    monkeypatch.setattr("db.exclusive.WATCH_S", 0.1)


@pytest.mark.usefixtures("hurried")
def test_a_second_worker_stands_by_until_the_first_ends_and_says_who_that_is(database: Database) -> None:
    again = Database(database.url.render_as_string(hide_password=False))
    with exclusive(database) as first:
        with second(again) as waiting:
            assert waiting.stands_by.wait(PATIENCE_S)
            assert not waiting.has.is_set()
            assert "another worker" in waiting.said[0]
            assert len(waiting.said) == 1
        assert waiting.gave_up.is_set(), "nobody wanted it any more"
        assert not first.lost.is_set()
    with second(again) as waiting:
        assert waiting.has.wait(PATIENCE_S)
        assert waiting.said == []
    again.dispose()


@pytest.mark.usefixtures("hurried")
def test_the_lock_is_handed_over_when_its_holder_lets_go(database: Database) -> None:
    again = Database(database.url.render_as_string(hide_password=False))
    with exclusive(database):
        waiting = Waiting(again)
        assert waiting.stands_by.wait(PATIENCE_S)
    assert waiting.has.wait(PATIENCE_S)
    waiting.end()
    again.dispose()


@pytest.mark.postgres
@pytest.mark.usefixtures("hurried")
def test_a_holder_whose_connection_dies_is_told(postgres_database: Database) -> None:
    told = threading.Event()
    with exclusive(postgres_database) as held:
        held.when_lost(told.set)
        _end_the_holder(postgres_database)
        assert told.wait(PATIENCE_S)
        assert held.lost.is_set()
        late = threading.Event()
        held.when_lost(late.set)
        assert late.is_set(), "who asks later is told as well"
        with exclusive(postgres_database) as next_one:
            assert not next_one.lost.is_set()


@pytest.mark.postgres
@pytest.mark.usefixtures("hurried")
def test_databases_of_one_server_do_not_hold_each_other(
    postgres_database: Database, postgres_server: PostgresCluster
) -> None:
    other = Database(postgres_server.url(postgres_server.create()))
    with exclusive(postgres_database), exclusive(other) as held:
        assert not held.lost.is_set()
    other.dispose()


def test_a_database_in_memory_has_no_other_holder() -> None:
    database = Database("sqlite://")
    with exclusive(database), exclusive(database) as held:
        assert isinstance(held, Exclusive)
    database.dispose()


def _end_the_holder(database: Database) -> None:
    with psycopg.connect(
        database.url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    ) as admin:
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND classid::bigint = %s AND objid::bigint = %s",
            (KEY >> 32, KEY & 0xFFFFFFFF),
        ).fetchall()
        assert ended == [(True,)]
