"""Only legal moves, each written down once, and of two racing callers one wins."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlmodel import col, select

from db.engine import Database
from db.errors import Conflict, NotFound
from db.states import BACKEND_MOVES, RUN_FINISHED, RUN_MOVES, move_backend, move_run
from db.tables import Backend, BackendEvent, PromptSet, Run, RunEvent
from tests.db.rows import build_world
from tests.db.test_sessions import at_once

many = hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def new_run(database: Database, state: str = "queued") -> int:
    world = build_world(database)
    with database.write() as s:
        run = s.get(Run, world.run_id)
        assert run is not None
        run.state = state
        s.add(run)
    return world.run_id


def new_backend(database: Database, name: str = "b") -> int:
    with database.write() as s:
        backend = Backend(name=name, kind="managed")
        s.add(backend)
        s.flush()
        assert backend.id is not None
        return backend.id


@pytest.mark.parametrize("moves", [RUN_MOVES, BACKEND_MOVES], ids=["runs", "backends"])
def test_every_state_can_be_reached_and_every_move_leads_to_a_known_state(moves: dict[str, tuple[str, ...]]):
    first = next(iter(moves))
    reached, new = {first}, {first}
    while new:
        new = {to for state in new for to in moves[state]} - reached
        reached |= new
    assert reached == set(moves)
    assert all(state not in moves[state] for state in moves)


def test_from_unknown_nothing_of_ours_begins():
    assert not {"starting", "draining", "stopping", "backoff"} & set(BACKEND_MOVES["unknown"])


@many
@given(path=st.lists(st.sampled_from(sorted(RUN_MOVES)), min_size=1, max_size=12))
def test_any_series_of_moves_ends_where_the_table_says(sqlite_database: Database, path: list[str]):
    with sqlite_database.write() as s:
        prompt_set = PromptSet(name="set")
        s.add(prompt_set)
        s.flush()
        run = Run(name="run", prompt_set_id=prompt_set.id)
        s.add(run)
        s.flush()
        state, history = "queued", []
        seen = len(s.exec(select(RunEvent)).all())
        for to in path:
            if to in RUN_MOVES[state]:
                moved = move_run(s, run.id, to, reason_kind="person", reason=f"to {to}")
                history.append((state, to))
                state = to
                assert (moved.state, moved.reason) == (to, f"to {to}")
                assert (moved.finished_at is not None) == (to in RUN_FINISHED)
            else:
                with pytest.raises(Conflict) as caught:
                    move_run(s, run.id, to)
                assert caught.value.code == "illegal_move"
                assert caught.value.allowed == RUN_MOVES[state]
        events = s.exec(select(RunEvent).order_by(col(RunEvent.id))).all()[seen:]
        assert [(event.detail["from"], event.kind) for event in events] == history
        assert (run.started_at is not None) == any(to == "running" for _, to in history)


@pytest.mark.parametrize("to", ["completed", "cancelling"])
def test_of_two_racing_callers_one_wins(database: Database, to: str):
    run_id = new_run(database, "running")
    rivals = ["pausing", to] * 4

    def work(number: int) -> None:
        with database.write() as s:
            move_run(s, run_id, rivals[number], only_from=("running",))

    errors = at_once(work, len(rivals))
    assert len(errors) == len(rivals) - 1
    assert all(isinstance(error, Conflict) for error in errors), errors
    with database.read() as s:
        (event,) = s.exec(select(RunEvent)).all()
        run = s.get(Run, run_id)
        assert run is not None
        assert run.state == event.kind


def test_a_narrowed_move_is_refused_from_elsewhere_and_names_what_may_follow(database: Database):
    run_id = new_run(database, "running")
    with database.write() as s, pytest.raises(Conflict) as caught:
        move_run(s, run_id, "queued", only_from=("paused",))
    assert "running" in caught.value.message
    assert caught.value.allowed == RUN_MOVES["running"]


def test_a_move_sees_the_row_not_the_sessions_memory_of_it(database: Database):
    run_id = new_run(database)
    with database.read() as s:
        assert s.get(Run, run_id).state == "queued"
        with database.write() as other:
            move_run(other, run_id, "running")
    with database.write() as s:
        assert move_run(s, run_id, "pausing").state == "pausing"


def test_what_does_not_exist_is_not_found(database: Database):
    with database.write() as s:
        for move in (lambda: move_run(s, 99, "running"), lambda: move_backend(s, 99, "ready", "")):
            with pytest.raises(NotFound):
                move()


def test_a_state_nobody_knows_is_a_programming_error(database: Database):
    run_id = new_run(database)
    with database.write() as s, pytest.raises(ValueError, match="no such state"):
        move_run(s, run_id, "sleeping")


def test_a_backends_history_has_changes_only(database: Database):
    backend_id = new_backend(database)
    with database.write() as s:
        move_backend(s, backend_id, "starting", "spawned", start_id=7, detail={"pid": 1})
        move_backend(s, backend_id, "starting", "still importing")
        backend = move_backend(s, backend_id, "loading", "weights 1/4")
        assert (backend.observed_state, backend.message) == ("loading", "weights 1/4")
        assert backend.observed_at is not None
        with pytest.raises(Conflict):
            move_backend(s, backend_id, "starting", "again")
    with database.read() as s:
        events = s.exec(select(BackendEvent).order_by(col(BackendEvent.id))).all()
    assert [(event.kind, event.message) for event in events] == [("starting", "spawned"), ("loading", "weights 1/4")]
    assert events[0].start_id == 7
    assert events[0].detail == {"from": "stopped", "pid": 1}
