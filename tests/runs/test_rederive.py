"""Segments and flags are views of the ids: they can be made again at any time, and nothing else changes."""

import threading

import pytest
from sqlalchemy import delete, update
from sqlmodel import col

from db.errors import Conflict, Invalid
from db.filters import parse_body
from db.tables import Attempt, Rederivation, RunCategory, Sample, SampleFlag
from inference.quality.flags import flag
from inference.runs.behind import rederive, textpass
from inference.runs.behind.rederivations import request_rederive
from inference.runs.behind.step import Behind
from inference.runs.control import delete_run, regenerate
from tests.support.fake_sglang import FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.tiny_tokenizers import make_tokenizer
from tests.support.workshop import MODEL, Workshop

END = 151645
FIGURES = {"flag_count", "kinds", "preview", "reasoning_tokens", "text_checked", "answer_hash"}


def every_other_empty(call: Call) -> list[int]:
    """A thought answer, or one whose think block is empty; each long enough to be compared with the others."""
    thought = [226] if call.number % 2 else []
    return [151667, *thought, 151668, *range(340, 360), END]


def derived(shop: Workshop, run_id: int) -> dict[int, object]:
    """What is made from the ids, by sample."""
    flags: dict[int, list[object]] = {}
    for row in shop.flags(run_id):
        flags.setdefault(row.sample_id, []).append((row.code, row.start, row.end, row.severity))
    segments = {attempt.sample_id: attempt.segments for attempt in shop.attempts(run_id)}
    return {
        sample.id: (sample.model_dump(include=FIGURES), sorted(flags.get(sample.id, [])), segments[sample.id])
        for sample in shop.samples(run_id)
    }


def ask(shop: Workshop, run_id: int, token_format: str | None = None) -> None:
    with shop.ctx.db.write() as s:
        request_rederive(s, shop.ctx, run_id, token_format)


def forget(shop: Workshop, run_id: int) -> None:
    """As if an older version had found nothing."""
    with shop.ctx.db.write() as s:
        s.execute(delete(SampleFlag).where(col(SampleFlag.run_id) == run_id))
        s.execute(
            update(Sample)
            .where(col(Sample.run_id) == run_id)
            .values(flag_count=0, kinds=0, preview="", reasoning_tokens=0, answer_hash=None)
        )
        s.execute(update(Attempt).where(col(Attempt.run_id) == run_id).values(segments=[], flag_count=0))
        s.execute(update(RunCategory).where(col(RunCategory.run_id) == run_id).values(flagged=0))


@pytest.fixture
def run_id(shop: Workshop, fake_sglang: FakeSglang) -> int:
    fake_sglang.script = every_other_empty
    number = shop.launch(shop.prompts(10), shop.backend(fake_sglang), guard=None)
    shop.work(number)
    shop.catch_up()
    return number


def test_what_was_derived_is_made_again_from_the_ids_alone(
    shop: Workshop, run_id: int, fake_sglang: FakeSglang
) -> None:
    before, kept = derived(shop, run_id), shop.counts(run_id)
    assert sum(row["flagged"] for row in kept.values()) == 5
    forget(shop, run_id)
    assert derived(shop, run_id) != before
    ask(shop, run_id)
    queued = shop.view(run_id)
    assert (queued.rederivation.state, "rederive" in queued.allowed) == ("queued", False)
    shop.catch_up()
    assert derived(shop, run_id) == before
    assert shop.counts(run_id) == kept
    assert len(fake_sglang.seen("/generate")) == 10
    view = shop.view(run_id)
    assert "rederive" in view.allowed
    assert view.checked.complete
    job = view.rederivation
    assert (job.state, job.done, job.total) == ("done", 10, 10)
    assert (job.before, job.after) == ({}, {"duplicate_answer": 10, "reasoning_empty": 5})
    event = shop.events(run_id)[-1]
    assert event.kind == "rederived"
    assert event.message.endswith("10 samples made again: duplicate_answer 0 → 10, reasoning_empty 0 → 5.")


def test_a_worker_that_died_at_it_goes_on_where_it_was(
    shop: Workshop, run_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = derived(shop, run_id)
    forget(shop, run_id)
    ask(shop, run_id)
    looked: list[int] = []
    inspect = rederive.inspect
    monkeypatch.setattr(rederive, "BATCH", 3)
    monkeypatch.setattr(rederive, "inspect", lambda *given, **more: looked.append(1) or inspect(*given, **more))
    halt = threading.Event()
    for _ in range(3):  # begins, and goes over two batches
        assert Behind(shop.ctx).step(halt)
    view = shop.view(run_id).rederivation
    assert (view.state, view.done, view.total) == ("running", 6, 10)
    assert shop.counts(run_id)
    shop.catch_up()  # another worker
    assert len(looked) == 10
    assert derived(shop, run_id) == before
    assert shop.view(run_id).rederivation.after == {"duplicate_answer": 10, "reasoning_empty": 5}
    shop.counts(run_id)


def test_the_run_must_be_at_rest_and_one_job_at_a_time(shop: Workshop, run_id: int, fake_sglang: FakeSglang) -> None:
    going = shop.launch(shop.prompts(2), shop.backend(fake_sglang, name="other"))
    with pytest.raises(Conflict) as caught:
        ask(shop, going)
    assert caught.value.allowed == ("pause", "cancel")
    ask(shop, run_id)
    with pytest.raises(Conflict) as caught:
        ask(shop, run_id)
    assert caught.value.code == "rederive_running"
    assert "rederive" not in caught.value.allowed


def test_another_format_can_be_named_and_is_remembered(shop: Workshop, run_id: int) -> None:
    before = derived(shop, run_id)
    ask(shop, run_id, "none")
    shop.catch_up()
    view = shop.view(run_id)
    assert (view.token_format, view.settings["token_format"]) == ("none", "qwen3")
    assert {tuple(segment[0] for segment in attempt.segments) for attempt in shop.attempts(run_id)} == {
        ("content", "control")
    }
    assert [event.message for event in shop.events(run_id) if event.kind == "token_format"] == [
        "The ids are read as none from now on, not as qwen3."
    ]
    assert "reasoning_empty 5 → 0" in shop.events(run_id)[-1].message
    ask(shop, run_id)  # stays as it is read
    shop.catch_up()
    assert shop.view(run_id).token_format == "none"
    ask(shop, run_id, "qwen3")
    shop.catch_up()
    assert shop.run(run_id).token_format is None
    assert derived(shop, run_id) == before
    shop.counts(run_id)


def test_answers_that_come_before_the_job_s_turn_are_read_by_its_format_already(shop: Workshop, run_id: int) -> None:
    ask(shop, run_id, "none")
    with shop.ctx.db.write() as s:
        regenerate(s, shop.ctx, run_id, parse_body({"source_id": ["q0"]}))
    shop.work(run_id)
    first = shop.samples(run_id)[0]
    segments = next(item.segments for item in shop.attempts(run_id) if (item.sample_id, item.number) == (first.id, 2))
    assert [segment[0] for segment in segments] == ["content", "control"]


@pytest.mark.parametrize(
    ("token_format", "code"), [("klingon", "format_unknown"), ("kimi_k2", "format_not_in_vocabulary")]
)
def test_a_format_that_does_not_fit_is_refused(shop: Workshop, run_id: int, token_format: str, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        ask(shop, run_id, token_format)
    assert (caught.value.code, caught.value.field) == (code, "token_format")
    assert shop.view(run_id).rederivation is None


def test_a_sample_that_is_made_again_meanwhile_is_left_alone(
    shop: Workshop, run_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspect = rederive.inspect
    asked = []

    def overtaken(*given, **more):
        if not asked:
            asked.append(1)
            with shop.ctx.db.write() as s:
                regenerate(s, shop.ctx, run_id, parse_body({"source_id": ["q0"]}))
        return inspect(*given, **more)

    monkeypatch.setattr(rederive, "inspect", overtaken)
    ask(shop, run_id)
    shop.catch_up()
    first = shop.samples(run_id)[0]
    assert (first.state, first.text_checked, first.preview) == ("pending", 1, "")
    assert not [row for row in shop.flags(run_id) if row.sample_id == first.id]
    assert shop.view(run_id).rederivation.state == "done"
    shop.counts(run_id)


def test_text_is_looked_at_too_and_what_cannot_be_read_says_so(
    shop: Workshop, run_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def look(*given, **more):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("unforeseen")
        return (flag("near_repetition", 3, 5, "Again and again."),)

    monkeypatch.setattr(textpass, "inspect_text", look)
    before = derived(shop, run_id)
    ask(shop, run_id)
    shop.catch_up()
    job = shop.view(run_id).rederivation
    assert (job.after["near_repetition"], job.after["text_unread"]) == (9, 1)
    first = shop.samples(run_id)[0].id
    after = derived(shop, run_id)
    assert after[first][2] == before[first][2]
    shop.counts(run_id)


def test_a_run_that_cannot_be_read_fails_in_words(shop: Workshop, run_id: int) -> None:
    ask(shop, run_id)
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL, template="{{ messages[0].content }}")
    before = derived(shop, run_id)
    shop.catch_up()
    job = shop.view(run_id).rederivation
    assert job.state == "failed"
    assert "was changed since this run was launched" in job.error
    assert shop.events(run_id)[-1].kind == "rederive_failed"
    assert derived(shop, run_id) == before


def test_a_run_can_be_deleted_while_it_is_gone_over(shop: Workshop, run_id: int) -> None:
    ask(shop, run_id)
    Behind(shop.ctx).step(threading.Event())
    delete_run(shop.ctx, run_id)
    assert shop.catch_up() == 0
    with shop.ctx.db.read() as s:
        assert s.get(Rederivation, 1) is None
