"""Write sessions wait their turn; read sessions keep nothing and leave their rows readable."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy.exc import StatementError
from sqlmodel import col, select

from db.engine import Database
from db.tables import Run, RunCategory, RunEvent, Sample
from db.types import now, storable
from tests.db.rows import build_world

THREADS, TURNS = 8, 15


def at_once(work: Callable[[int], None], threads: int = THREADS) -> list[BaseException]:
    """Run `work(n)` in threads that start together; returns what they raised."""
    errors: list[BaseException] = []
    gate = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            gate.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001  (handed to the test's own thread)
            errors.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return errors


def test_many_threads_read_then_write_and_none_is_told_locked(sqlite_database: Database):
    world = build_world(sqlite_database)

    def work(_: int) -> None:
        for _turn in range(TURNS):
            with sqlite_database.write() as s:
                run = s.get(Run, world.run_id)
                assert run is not None
                run.generation += 1  # read, then written: lost where two writers are inside at once
                s.add(run)

    assert at_once(work) == []
    with sqlite_database.read() as s:
        run = s.get(Run, world.run_id)
        assert run is not None
        assert run.generation == THREADS * TURNS


def test_readers_go_on_while_a_writer_holds_the_lock(sqlite_database: Database):
    world = build_world(sqlite_database)
    with sqlite_database.write() as writer:
        world.sample(writer)
        with sqlite_database.read() as reader:
            assert reader.exec(select(Sample)).all() == []


def test_an_error_rolls_the_write_back(database: Database):
    world = build_world(database)

    def write_and_fail() -> None:
        with database.write() as s:
            world.sample(s)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    with database.read() as s:
        assert s.exec(select(Sample)).all() == []


def test_a_read_session_keeps_nothing_and_its_rows_can_be_read_afterwards(database: Database):
    world = build_world(database)
    with database.read() as s:
        run = s.get(Run, world.run_id)
        assert run is not None
        s.add(RunEvent(run_id=world.run_id, kind="x"))
        s.flush()
    assert run.name == "run"
    with database.read() as s:
        assert s.exec(select(RunEvent)).all() == []


def test_times_come_back_aware_and_in_utc_whatever_the_servers_zone(database: Database):
    world = build_world(database)
    before = now()
    with database.write() as s:
        s.add(RunEvent(run_id=world.run_id, kind="x", at=before))
    with database.read() as s:
        assert s.exec(select(RunEvent.at)).one() == before
        assert s.exec(select(RunEvent).where(col(RunEvent.at) >= before)).one().at.utcoffset() == before.utcoffset()


def test_a_naive_time_is_refused(database: Database):
    world = build_world(database)
    event = RunEvent(run_id=world.run_id, kind="x", at=now().replace(tzinfo=None))
    with pytest.raises(StatementError, match="naive datetime"), database.write() as s:
        s.add(event)


def test_text_that_no_database_keeps_is_made_storable(database: Database):
    world = build_world(database)
    text = storable("a\x00b\ud800c\U0001f600")
    assert text == "a\ufffdb\ufffdc\U0001f600"
    with database.write() as s:
        s.add(RunEvent(run_id=world.run_id, kind="x", message=text, detail={"text": text}))
        s.add(RunCategory(run_id=world.run_id, category=text))
    with database.read() as s:
        event = s.exec(select(RunEvent)).one()
    assert (event.message, event.detail) == (text, {"text": text})
