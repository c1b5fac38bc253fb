"""Lists, counts, ids and neighbours, on both databases, against the plain model."""

import contextlib
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import update
from sqlmodel import Session, col

from db.engine import Database
from db.errors import Invalid
from db.filters import SAMPLE_STATES, SORTS, Filter, parse_body, parse_query
from db.kinds import SEGMENT_KINDS, kind_bit
from db.queries.samples import (
    count_samples,
    flags_of,
    iter_sample_ids,
    list_samples,
    neighbours,
    reviews_of,
    tags_of,
)
from db.tables import Sample, SampleFlag
from tests.db.model import Plain, inside, ordered
from tests.db.rows import TAGS, USERS, World, build_world

CATEGORIES = ("", "facts", "tool calls", "a,b", "O'Brien", "50%")
FLAGS = ("truncated", "reasoning_empty", "extra_close")
FINISH = (None, "stop", "length", "abort")
PREVIEWS = ("", "100% sure", "a_b", "Été à Paris", "ПРИВЕТ мир", "SELECT * FROM x; --", 'say "hi"', "back\\slash")
NEEDLES = ("%", "_", "été", "привет", "hi", "SELECT", "s1", "\\", "ö", "'", "paris", "0%")
START = datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)


class Undo(Exception):  # noqa: N818  (not an error: it rolls a session back)
    """Rolls the session back."""


@contextlib.contextmanager
def undone(database: Database) -> Iterator[Session]:
    with contextlib.suppress(Undo), database.write() as s:
        yield s
        raise Undo


@pytest.fixture
def crowd(database: Database) -> tuple[World, list[Plain]]:
    """A run of 120 samples of every sort, each older attempt judged differently, and a twin run beside it."""
    world = build_world(database)
    rng = random.Random(7)
    plain: list[Plain] = []
    with database.write() as s:
        for number in range(120):
            attempt = rng.randint(0, 2)
            length = rng.choice([None, *range(6)])
            values = {
                "state": rng.choice(SAMPLE_STATES),
                "category": rng.choice(CATEGORIES),
                "prompt_preview": rng.choice(PREVIEWS),
                "preview": rng.choice(PREVIEWS),
                "turn": rng.randint(0, 2),
                "attempt": attempt,
                "attempts": attempt,
                "finish_reason": rng.choice(FINISH),
                "completion_tokens": length,
                "kinds": rng.randint(0, 2 ** len(SEGMENT_KINDS) - 1) if rng.random() < 0.8 else 0,
                "updated_at": START + timedelta(microseconds=rng.randint(0, 8)),
            }
            twin = world.sample(s, id=2 * number + 1, run_id=world.other_run_id, **values)
            world.flag(twin, FLAGS[0])
            world.tag(twin, TAGS[0], USERS[0])
            world.review(twin, USERS[0], "good")
            sample = world.sample(s, id=2 * number + 2, **values)
            flags = rng.sample(FLAGS, rng.choice([0, 0, 1, 2]))
            for code in flags:
                world.flag(sample, code)
            tags = {(rng.choice(TAGS), rng.choice(USERS)) for _ in range(rng.choice([0, 0, 1, 3]))}
            for tag, user in tags:
                world.tag(sample, tag, user)
            verdicts = [None, "good", "bad", "unsure"]
            reviews = {
                user: (rng.choice(verdicts), rng.choice(["", "note"]))
                for user in rng.sample(USERS, rng.choice([0, 0, 1, 2]))
            }
            for user, (verdict, note) in reviews.items():
                world.review(sample, user, verdict, note)
            if attempt:
                world.tag(sample, rng.choice(TAGS), rng.choice(USERS), attempt=attempt - 1)
                world.review(sample, rng.choice(USERS), rng.choice(verdicts), "old", attempt=attempt - 1)
            plain.append(
                Plain(
                    id=sample.id,
                    state=values["state"],
                    category=values["category"],
                    source_id=sample.source_id,
                    prompt_preview=values["prompt_preview"],
                    preview=values["preview"],
                    turn=values["turn"],
                    attempts=attempt,
                    finish=values["finish_reason"],
                    length=length,
                    kinds=values["kinds"],
                    updated=values["updated_at"],
                    flags=set(flags),
                    tags=tags,
                    reviews=reviews,
                )
            )
        world.settle(s)
    return world, plain


def some(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3)


spans = some("0", "1..3", "2..", "..2", "4..6")
conditions = {
    "state": some(*SAMPLE_STATES),
    "category": some(*CATEGORIES, "absent"),
    "source_id": some("s1", "s2", "s100", "S2", "%"),
    "flag": some(*FLAGS, "none", "absent"),
    "tag": some(*TAGS, "none", "absent"),
    "verdict": some("good", "bad", "unsure", "none"),
    "reviewer": some(*USERS, "none", "absent"),
    "finish": some("stop", "length", "abort", "none"),
    "kind": some(*SEGMENT_KINDS, "none"),
    "q": some(*NEEDLES),
    "len": spans,
    "turn": spans,
    "attempts": spans,
}
one_condition = st.sampled_from(sorted(conditions)).flatmap(
    lambda name: st.tuples(st.sampled_from([name, f"-{name}"]), conditions[name])
)
filters = st.builds(
    lambda pairs, sort: parse_body({**dict(pairs), "sort": sort}),
    st.lists(one_condition, max_size=3),
    st.sampled_from(SORTS),
)
many = hypothesis_settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def pages(s: Session, run_id: int, flt: Filter, limit: int) -> Iterator[list[Sample]]:
    after: str | None = None
    while True:
        rows, after = list_samples(s, run_id, flt, after=after, limit=limit)
        yield rows
        if after is None:
            return
        assert len(rows) == limit


@many
@given(flt=filters, limit=st.integers(1, 40))
def test_lists_counts_and_ids_are_what_the_plain_model_says(database: Database, crowd, flt: Filter, limit: int):
    world, plain = crowd
    expected = [sample.id for sample in ordered([x for x in plain if inside(x, flt)], flt.sort)]
    with database.read() as s:
        assert [row.id for page in pages(s, world.run_id, flt, limit) for row in page] == expected
        batches = list(iter_sample_ids(s, world.run_id, flt, batch=limit))
        assert [number for batch in batches for number in batch] == expected
        assert all(0 < len(batch) <= limit for batch in batches)
        assert count_samples(s, world.run_id, flt) == (len(expected), True)
        assert count_samples(s, world.run_id, flt, cap=5) == (min(len(expected), 5), len(expected) <= 5)


@many
@given(flt=filters)
def test_a_condition_and_its_negation_part_the_run_exactly(database: Database, crowd, flt: Filter):
    world, plain = crowd
    with database.read() as s:
        for condition in flt.conditions:
            name = condition.field if condition.negated else f"-{condition.field}"
            body = {condition.name: list(condition.written)}
            there = {i for ids in iter_sample_ids(s, world.run_id, parse_body(body)) for i in ids}
            not_there = {
                i for ids in iter_sample_ids(s, world.run_id, parse_body({name: list(condition.written)})) for i in ids
            }
            assert there | not_there == {sample.id for sample in plain}
            assert not there & not_there


@many
@given(flt=filters, limit=st.integers(1, 25), data=st.data())
def test_paging_neither_skips_nor_repeats_while_rows_leave_the_filter(
    database: Database, crowd, flt: Filter, limit: int, data: st.DataObject
):
    world, plain = crowd
    rng = random.Random(data.draw(st.integers(0, 1000)))
    ids = [sample.id for sample in ordered([x for x in plain if inside(x, flt)], flt.sort)]
    staying = [number for number in ids if rng.random() < 0.5]
    leaving = [number for number in ids if number not in staying]
    rng.shuffle(leaving)
    seen: list[int] = []
    with undone(database) as s:
        for page in pages(s, world.run_id, flt, limit):
            seen += [row.id for row in page]
            # judged rows leave, those just seen first: to another run, which no filter reaches
            gone = [number for number in leaving if number in seen[-limit:]] + leaving[: rng.randint(0, 5)]
            leaving = [number for number in leaving if number not in gone]
            statement = update(Sample).where(col(Sample.id).in_(gone)).values(run_id=world.other_run_id)
            s.execute(statement.execution_options(synchronize_session=False))
            s.expire_all()
    assert len(seen) == len(set(seen))
    assert [number for number in seen if number in set(staying)] == staying
    assert [number for number in ids if number in set(seen)] == seen


@many
@given(flt=filters, data=st.data())
def test_neighbours_are_those_of_the_list_even_for_a_sample_that_left_it(
    database: Database, crowd, flt: Filter, data: st.DataObject
):
    world, plain = crowd
    subject = data.draw(st.sampled_from(plain))
    line = [x.id for x in ordered([x for x in plain if inside(x, flt) or x is subject], flt.sort)]
    place = line.index(subject.id)
    expected = (line[place - 1] if place else None, line[place + 1] if place + 1 < len(line) else None)
    with database.read() as s:
        sample = s.get(Sample, subject.id)
        assert sample is not None
        assert neighbours(s, world.run_id, sample, flt) == expected


def test_ids_being_walked_are_those_of_the_start_whatever_happens_to_a_batch(database: Database, crowd):
    world, plain = crowd
    with undone(database) as s:
        walked = []
        for batch in iter_sample_ids(s, world.run_id, parse_query([("state", "done,failed")]), batch=3):
            walked += batch
            s.execute(update(Sample).where(col(Sample.id).in_(batch)).values(state="pending"))
        assert walked == [sample.id for sample in plain if sample.state in {"done", "failed"}]


def test_any_of_takes_more_values_than_the_database_takes_variables(database: Database, crowd):
    world, plain = crowd
    wanted = [f"value {n}" for n in range(70_000)]
    has = {"source_id": "s2", "tag": "wrong", "flag": FLAGS[0]}
    for field in (*has, "-source_id"):
        value = has[field.removeprefix("-")]
        flt = parse_body({field: [*wanted, value]})
        expected = [sample.id for sample in plain if inside(sample, parse_body({field: [value]}))]
        with database.read() as s:
            assert [row.id for row in list_samples(s, world.run_id, flt, limit=500)[0]] == expected
        assert expected


def test_what_hangs_on_samples_is_that_of_their_current_attempt(database: Database, crowd):
    world, plain = crowd
    with database.read() as s:
        samples = list_samples(s, world.run_id, Filter(), limit=500)[0]
        flags, tags, reviews = flags_of(s, [x.id for x in samples]), tags_of(s, samples), reviews_of(s, samples)
        assert flags_of(s, []) == tags_of(s, []) == reviews_of(s, []) == {}
    for sample in plain:
        assert {flag.code for flag in flags[sample.id]} == sample.flags
        assert sorted(tags[sample.id]) == sorted(sample.tags)
        assert {name: (review.verdict, review.note) for name, review in reviews[sample.id]} == sample.reviews


def test_many_samples_at_once_bring_their_flags(sqlite_database: Database):
    world = build_world(sqlite_database)
    with sqlite_database.write() as s:
        sample = world.sample(s)
        world.flag(sample, "truncated")
        world.settle(s)
        found = flags_of(s, range(1, 70_000))
    assert [flag.code for flag in found[sample.id]] == ["truncated"]
    assert len(found) == 69_999


BAD_CURSORS = (
    *("", "x", "é", "W10", "WzFd", "WyJpZCIsbnVsbCwiMSJd", "WyJpZCIsbnVsbCx0cnVlXQ", "A" * 5000, "eyJhIjoxfQ", "=" * 7),
    *("WyJpZCIsbnVsbCwxZTk5OV0", "WyJpZCIsbnVsbCw5MjIzMzcyMDM2ODU0Nzc1ODA4XQ"),
)


def test_a_cursor_that_no_page_gave_is_refused(sqlite_database: Database):
    for cursor in BAD_CURSORS:
        with sqlite_database.read() as s, pytest.raises(Invalid) as caught:
            list_samples(s, 1, Filter(), after=cursor)
        assert (caught.value.code, caught.value.field) == ("bad_cursor", "after")


def test_a_cursor_of_another_order_is_refused(sqlite_database: Database):
    world = build_world(sqlite_database)
    with sqlite_database.write() as s:
        for length in (1, 2):
            world.sample(s, completion_tokens=length)
        for sort in SORTS:
            _, after = list_samples(s, world.run_id, Filter(sort=sort), limit=1)
            for other in set(SORTS) - {sort}:
                with pytest.raises(Invalid):
                    list_samples(s, world.run_id, Filter(sort=other), after=after)


@pytest.mark.parametrize("limit", [0, -1, 501])
def test_a_page_size_out_of_bounds_is_refused(sqlite_database: Database, limit: int):
    with sqlite_database.read() as s, pytest.raises(Invalid) as caught:
        list_samples(s, 1, Filter(), limit=limit)
    assert caught.value.field == "limit"


def test_kind_bits_are_one_each():
    assert [kind_bit(kind) for kind in SEGMENT_KINDS] == [1, 2, 4, 8, 16]
    assert SampleFlag.__tablename__ == "sample_flags"
