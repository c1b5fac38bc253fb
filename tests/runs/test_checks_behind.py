"""Behind a run every answer's text is looked at, once, whatever happens meanwhile; then all answers are compared."""

import threading

import pytest
from sqlalchemy import text, update
from sqlmodel import col

from db.engine import Database
from db.filters import parse_body
from db.tables import Sample, SampleFlag
from inference.quality.flags import flag
from inference.runs.behind import textpass
from inference.runs.behind.collection import runs_to_sweep
from inference.runs.behind.step import Behind
from inference.runs.behind.textpass import check_batch, runs_to_check
from inference.runs.control import delete_run, regenerate
from tests.support.fake_sglang import FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.tiny_tokenizers import make_tokenizer
from tests.support.workshop import MODEL, Workshop

END = 151645
Found = dict[int, list[tuple[str, str]]]


def answer(call: Call, length: int = 20) -> list[int]:
    """A thought answer of its own for every request."""
    digits = [300 + int(digit) for digit in f"{call.number:06}"]
    return [151667, 226, 151668, *digits, *(340 + at % 20 for at in range(length)), END]


def alike(call: Call) -> list[int]:
    """The same answer to whatever is asked."""
    return [151667, 226, 151668, *range(340, 360), END]


def thoughtless(call: Call) -> list[int]:
    """The same, after nothing at all."""
    return [151667, 151668, *range(340, 360), END]


def flags_of(shop: Workshop, run_id: int) -> Found:
    """(code, severity) by sample."""
    found: Found = {}
    for row in shop.flags(run_id):
        found.setdefault(row.sample_id, []).append((row.code, row.severity))
    return found


@pytest.fixture
def every_other(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A check of text that finds something in every other answer; the list tells how many answers it was given."""
    seen: list[int] = []

    def look(bound, tokenizer, prompt_text, output_ids, segmentation, **more):
        assert prompt_text.startswith("question")
        seen.append(len(output_ids))
        if int(output_ids[8]) % 2 and "near_repetition" not in more["off"]:
            return (flag("near_repetition", 3, 5, "Again and again."), flag("language_mismatch", 3, 5, "Other."))
        return ()

    monkeypatch.setattr(textpass, "inspect_text", look)
    return seen


@pytest.fixture
def run_id(shop: Workshop, fake_sglang: FakeSglang) -> int:
    fake_sglang.script = answer
    number = shop.launch(shop.prompts(10), shop.backend(fake_sglang), guard=None)
    shop.work(number)
    return number


def test_every_done_answer_is_looked_at_once_and_the_counters_follow(
    shop: Workshop, run_id: int, every_other: list[int]
) -> None:
    before = shop.view(run_id).checked
    assert (before.done, before.total, before.complete) == (0, 10, False)
    shop.catch_up()
    after = shop.view(run_id).checked
    assert (after.done, after.total, after.complete, after.trouble) == (10, 10, True, "")
    assert len(every_other) == 10
    found = flags_of(shop, run_id)
    assert list(found.values()) == [[("near_repetition", "warning"), ("language_mismatch", "info")]] * 5
    assert {sample.id for sample in shop.samples(run_id) if sample.flag_count == 1} == set(found)
    assert sum(row["flagged"] for row in shop.counts(run_id).values()) == 5
    shop.catch_up()
    assert len(every_other) == 10


def test_a_pass_that_was_cut_off_goes_on_where_it_was_and_doubles_no_flag(
    shop: Workshop, run_id: int, every_other: list[int]
) -> None:
    behind = Behind(shop.ctx)
    lens = behind._lens(run_id)
    assert check_batch(shop.ctx, run_id, lens, 4) == 4
    assert shop.view(run_id).checked.done == 4
    with shop.ctx.db.write() as s:  # as if the worker had died before the row said so
        first = shop.samples(run_id)[0].id
        s.execute(update(Sample).where(col(Sample.id) == first).values(text_checked=0))
        s.execute(
            text("UPDATE run_categories SET checked = checked - 1 WHERE run_id = :run AND category = 'a'"),
            {"run": run_id},
        )
    shop.catch_up()
    assert [len(found) for found in flags_of(shop, run_id).values()] == [2] * 5
    assert shop.view(run_id).checked.complete
    shop.counts(run_id)


def test_a_sample_that_is_made_again_meanwhile_gets_nothing_of_the_old_look(
    shop: Workshop, run_id: int, every_other: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shop.samples(run_id)[0].id
    look = textpass.inspect_text

    def overtaken(*given, **more):
        if not every_other:
            with shop.ctx.db.write() as s:
                regenerate(s, shop.ctx, run_id, parse_body({"source_id": ["q0"]}))
        return look(*given, **more)

    monkeypatch.setattr(textpass, "inspect_text", overtaken)
    shop.catch_up()
    assert first not in flags_of(shop, run_id)
    sample = shop.samples(run_id)[0]
    assert (sample.state, sample.text_checked) == ("pending", 0)
    shop.counts(run_id)
    shop.work(run_id)
    shop.catch_up()
    assert shop.samples(run_id)[0].text_checked == shop.samples(run_id)[0].attempt == 2
    assert shop.view(run_id).checked.complete
    shop.counts(run_id)


def test_a_regenerated_sample_counts_as_not_looked_at(shop: Workshop, run_id: int, every_other: list[int]) -> None:
    shop.catch_up()
    with shop.ctx.db.write() as s:
        regenerate(s, shop.ctx, run_id, parse_body({"category": ["a"]}))
    assert (shop.view(run_id).checked.done, shop.view(run_id).checked.total) == (5, 5)
    shop.counts(run_id)
    shop.work(run_id)
    assert (shop.view(run_id).checked.done, shop.view(run_id).checked.total) == (5, 10)
    shop.catch_up()
    assert len(every_other) == 15
    shop.counts(run_id)


def test_an_answer_that_cannot_be_read_says_so_and_is_not_tried_again(
    shop: Workshop, run_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given, **more):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(textpass, "inspect_text", broken)
    shop.catch_up()
    assert all(found == [("text_unread", "warning")] for found in flags_of(shop, run_id).values())
    assert shop.view(run_id).checked.complete
    assert "unforeseen" in shop.flags(run_id)[0].message
    shop.counts(run_id)


def test_a_run_without_its_tokenizer_says_why_it_is_not_checked(shop: Workshop, run_id: int) -> None:
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL, template="{{ messages[0].content }}")
    shop.catch_up()
    checked = shop.view(run_id).checked
    assert (checked.done, checked.complete) == (0, False)
    assert "was changed since this run was launched" in checked.trouble
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL)
    shop.catch_up()
    assert (shop.view(run_id).checked.complete, shop.view(run_id).checked.trouble) == (True, "")


def test_what_a_run_switches_off_is_looked_for_nowhere(
    shop: Workshop, fake_sglang: FakeSglang, every_other: list[int]
) -> None:
    fake_sglang.script = thoughtless
    off = {"near_repetition": False, "reasoning_empty": False, "duplicate_answer": False}
    run_id = shop.launch(shop.prompts(4), shop.backend(fake_sglang), guard=None, checks=off)
    shop.work(run_id)
    shop.catch_up()
    assert len(every_other) == 4
    assert flags_of(shop, run_id) == {}
    assert all(sample.answer_hash is None for sample in shop.samples(run_id))


def test_a_run_that_wants_no_check_behind_it_is_left_alone(shop: Workshop, fake_sglang: FakeSglang) -> None:
    off = dict.fromkeys((*textpass.OF_TEXT, "duplicate_answer", "length_outlier"), False)
    run_id = shop.launch(shop.prompts(4), shop.backend(fake_sglang), guard=None, checks=off)
    shop.work(run_id)
    assert shop.catch_up() == 0
    checked = shop.view(run_id).checked
    assert (checked.done, checked.total, checked.complete) == (0, 0, True)


def test_identical_answers_to_different_prompts_are_noted_and_count_as_nothing(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    fake_sglang.script = alike
    run_id = shop.launch(shop.prompts(3), shop.backend(fake_sglang), guard=None, repeats=2)
    alone = shop.launch(shop.prompts(1), shop.backend(fake_sglang, name="other"), guard=None, repeats=4)
    for number in (run_id, alone):
        shop.work(number)
    shop.catch_up()
    assert flags_of(shop, alone) == {}  # repeats of one prompt may well be alike
    samples = shop.samples(run_id)
    assert flags_of(shop, run_id) == {sample.id: [("duplicate_answer", "info")] for sample in samples}
    assert {sample.flag_count for sample in samples} == {0}
    shop.counts(run_id)
    message = next(row.message for row in shop.flags(run_id) if row.sample_id == samples[0].id)
    assert f"sample {samples[2].id}" in message  # of another prompt, not its own repeat


def test_lengths_far_from_the_category_are_noted(shop: Workshop, fake_sglang: FakeSglang) -> None:
    lengths = {1: 600}
    fake_sglang.script = lambda call: answer(call, lengths.get(call.number, 20))
    run_id = shop.launch(shop.prompts(40, categories=["a"]), shop.backend(fake_sglang), guard=None, concurrency=1)
    shop.work(run_id)
    shop.catch_up()
    far = max(shop.samples(run_id), key=lambda sample: sample.completion_tokens)
    assert [pair for pair in flags_of(shop, run_id)[far.id] if pair[0] == "length_outlier"] == [
        ("length_outlier", "info")
    ]
    assert sum(row.code == "length_outlier" for row in shop.flags(run_id)) == 1


def test_answers_are_compared_again_when_some_have_gone(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = alike
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    shop.catch_up()
    assert len(shop.flags(run_id)) == 2
    assert runs_to_sweep(shop.ctx) == []
    with shop.ctx.db.write() as s:
        regenerate(s, shop.ctx, run_id, parse_body({"source_id": ["q0"]}))
    fake_sglang.script = answer
    shop.work(run_id)
    shop.catch_up()
    assert shop.flags(run_id) == []


def test_a_comparison_that_was_overtaken_is_due_still(
    shop: Workshop, fake_sglang: FakeSglang, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inference.runs.behind import collection

    fake_sglang.script = alike
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    replace = collection._replace

    def overtaken(*given):
        monkeypatch.setattr(collection, "_replace", replace)
        with shop.ctx.db.write() as s:
            regenerate(s, shop.ctx, run_id, parse_body({"source_id": ["q0"]}))
        return replace(*given)

    monkeypatch.setattr(collection, "_replace", overtaken)
    shop.catch_up()
    pending = shop.samples(run_id)[0]
    assert pending.id not in flags_of(shop, run_id)
    assert shop.run(run_id).collection_due > 0
    shop.work(run_id)
    shop.catch_up()
    assert len(shop.flags(run_id)) == 2


def test_comparing_can_be_stopped_and_is_then_done_from_the_start(shop: Workshop, run_id: int) -> None:
    halt = threading.Event()
    behind = Behind(shop.ctx)
    assert behind._check()
    halt.set()
    assert behind._sweep(halt)
    assert shop.run(run_id).collection_due > 0
    shop.catch_up()
    assert shop.run(run_id).collection_due == 0


def test_a_deleted_run_leaves_no_work(shop: Workshop, run_id: int, every_other: list[int]) -> None:
    behind = Behind(shop.ctx)
    lens = behind._lens(run_id)
    delete_run(shop.ctx, run_id)
    assert runs_to_check(shop.ctx) == []
    assert check_batch(shop.ctx, run_id, lens, 10) == 0
    assert shop.catch_up() == 0


def test_the_samples_left_are_found_by_the_partial_index(sqlite_database: Database) -> None:
    """SQLite's planner takes a partial index only where the query repeats its words; PostgreSQL's asks for no such care."""
    from sqlalchemy import func, select
    from sqlalchemy.dialects import sqlite

    from inference.runs.behind.looking import _SAMPLES, UNCHECKED

    c = _SAMPLES.c
    for query in (
        select(func.min(c.run_id)).where(UNCHECKED, c.run_id > 3),
        select(c.id).where(c.run_id == 3, UNCHECKED).order_by(c.id).limit(64),
    ):
        compiled = query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
        with sqlite_database.read() as s:
            plan = [row[-1] for row in s.execute(text(f"EXPLAIN QUERY PLAN {compiled}"))]
        assert len(plan) == 1, plan
        assert "ix_samples_unchecked" in plan[0], plan


def test_flags_of_other_kinds_stay(shop: Workshop, run_id: int, every_other: list[int]) -> None:
    first = shop.samples(run_id)[0]
    with shop.ctx.db.write() as s:
        s.add(SampleFlag(run_id=run_id, sample_id=first.id, code="reasoning_missing", severity="warning"))
        s.execute(update(Sample).where(col(Sample.id) == first.id).values(flag_count=1))
        s.execute(text("UPDATE run_categories SET flagged = 1 WHERE run_id = :run AND category = 'a'"), {"run": run_id})
    shop.catch_up()
    kept = flags_of(shop, run_id)[first.id]
    assert ("reasoning_missing", "warning") in kept
    assert shop.samples(run_id)[0].flag_count == sum(severity == "warning" for _, severity in kept)
    shop.counts(run_id)
