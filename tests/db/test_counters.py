"""Counters lose nothing to each other, and can be made again from the samples."""

import pytest

from db.engine import Database
from db.queries.counters import COUNTED, apply_deltas, counters, recount
from tests.db.rows import build_world
from tests.db.test_sessions import THREADS, at_once


def test_additions_of_many_writers_all_count(database: Database):
    world = build_world(database)
    turns = 10

    def work(number: int) -> None:
        for turn in range(turns):
            # each writer names the categories in an order of its own: none may end in a ring of waiting
            names = [f"c{(number + turn + n) % 3}" for n in range(3)]
            with database.write() as s:
                apply_deltas(
                    s, world.run_id, {name: {"done": 1, "in_flight": -1, "prompt_tokens": 2**33} for name in names}
                )

    assert at_once(work) == []
    total = THREADS * turns
    with database.read() as s:
        expected = dict.fromkeys(COUNTED, 0) | {"done": total, "in_flight": -total, "prompt_tokens": total * 2**33}
        assert counters(s, world.run_id) == {f"c{n}": expected for n in range(3)}
        assert counters(s, world.other_run_id) == {}


def test_nothing_to_add_makes_no_row(database: Database):
    world = build_world(database)
    with database.write() as s:
        apply_deltas(s, world.run_id, {"c": {"done": 0}, "d": {}})
        assert counters(s, world.run_id) == {}


def test_a_counter_nobody_keeps_is_refused(database: Database):
    world = build_world(database)
    with database.write() as s, pytest.raises(ValueError, match="no such counter: finished"):
        apply_deltas(s, world.run_id, {"c": {"finished": 1}})


def test_a_recount_agrees_with_the_samples(database: Database):
    world = build_world(database)
    with database.write() as s:
        for number, state in enumerate(["done", "done", "failed", "pending", "skipped", "in_flight", "done"]):
            sample = world.sample(
                s, state=state, category="ab"[number % 2], prompt_tokens=3, completion_tokens=None if number == 6 else 5
            )
            for severity in ("info", "warning", "error")[: number % 3 + 1]:
                world.flag(sample, f"f{severity}", severity)
        world.sample(s, run_id=world.other_run_id, state="done", category="a")
        world.settle(s)
        apply_deltas(s, world.run_id, {"gone": {"done": 9}, "a": {"pending": 100}})
        recount(s, world.run_id)
        none = dict.fromkeys(COUNTED, 0)
        assert counters(s, world.run_id) == {
            "a": none | {"done": 2, "failed": 1, "skipped": 1, "prompt_tokens": 6, "completion_tokens": 5},
            "b": none
            | {"done": 1, "pending": 1, "in_flight": 1, "flagged": 1, "prompt_tokens": 3, "completion_tokens": 5},
        }
