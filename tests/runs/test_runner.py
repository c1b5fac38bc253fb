"""What a runner promises: every sample once, exactly as the server sent it, and a named reason for each that failed."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from db.errors import Invalid
from db.filters import parse_body
from db.tables import Backend, Run
from inference.runs.control import cancel_run, pause_run, regenerate, resume_run, retry_failed
from tests.support.fake_sglang import RECORDED_ANSWER, Answer, FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.workshop import Workshop, until

END = 151645


def answer_of(call: Call) -> list[int]:
    """An answer that only this prompt gets: its own ids turned round."""
    words = [number for number in call.prompt_ids if number < 151_000]
    return [151667, *words, 151668, *reversed(words), END]


def test_finished_run_holds_exactly_what_the_server_sent(shop: Workshop, fake_sglang: FakeSglang) -> None:
    sent: dict[tuple[int, ...], list[int]] = {}

    def script(call: Call) -> list[int]:
        sent[tuple(call.prompt_ids)] = answer_of(call)
        return sent[tuple(call.prompt_ids)]

    fake_sglang.script = script
    run_id = shop.launch(shop.prompts(20), shop.backend(fake_sglang), repeats=2)
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    samples = shop.samples(run_id)
    assert len(samples) == 40
    assert {sample.state for sample in samples} == {"done"}
    for sample in samples:
        ids = shop.ctx.ids.get(run_id, (sample.id, 1))
        assert ids is not None
        assert ids.output_ids.tolist() == sent[tuple(ids.prompt_ids.tolist())]
        assert sample.completion_tokens == len(ids.output_ids)
        assert sample.prompt_tokens == len(ids.prompt_ids)
    counts = shop.counts(run_id)
    assert {name: row["done"] for name, row in counts.items()} == {"a": 20, "b": 20}


def test_each_sample_is_sent_with_a_seed_and_an_id_of_its_own(shop: Workshop, fake_sglang: FakeSglang) -> None:
    run_id = shop.launch(shop.prompts(8), shop.backend(fake_sglang), repeats=4, sampling={"max_new_tokens": 40})
    shop.work(run_id)
    bodies = [seen.body for seen in fake_sglang.seen("/generate")]
    assert len({body["sampling_params"]["sampling_seed"] for body in bodies}) == 32
    assert len({body["rid"] for body in bodies}) == 32
    assert {len(body["rid"]) for body in bodies} == {32}
    assert {body["sampling_params"]["max_new_tokens"] for body in bodies} == {40}
    assert {body["sampling_params"]["temperature"] for body in bodies} == {0.6}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(completion_tokens=3), "length_mismatch"),
        (Answer(prompt_tokens=3), "prompt_mismatch"),
        (Answer(prompt_token_ids=[1, 2, 3]), "echo_mismatch"),
        (Answer(remove=("prompt_token_ids",)), "echo_missing"),
        (Answer(output_ids=[151_940, END], exact=True), "id_out_of_vocabulary"),
        (Answer.nan([10061, END]), "nan_output"),
        (Answer.aborted([10061]), "aborted"),
        (Answer(output_ids=[], exact=True), "output_empty"),
        (Answer(status=500, message="boom"), "server_error"),
        (Answer(body='{"output_ids": [1]}'), "malformed"),
        (Answer(finish_reason={"type": "surprise"}), "malformed"),
    ],
)
def test_answer_that_does_not_add_up_is_tried_again_and_then_a_named_failure(
    shop: Workshop, fake_sglang: FakeSglang, answer: Answer, code: str
) -> None:
    fake_sglang.script = lambda _call: answer
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang), tries=2, guard=None)
    shop.work(run_id)
    (sample,) = shop.samples(run_id)
    assert (sample.state, sample.error_code, sample.attempts) == ("failed", code, 2)
    assert [(attempt.number, attempt.error_code) for attempt in shop.attempts(run_id)] == [(1, code), (2, code)]
    assert shop.run(run_id).state == "completed_with_failures"
    assert shop.counts(run_id)["a"]["failed"] == 1


def test_answer_from_other_weights_than_its_start_has_is_a_named_failure(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    fake_sglang.script = lambda _call: Answer(weight_version="other")
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang, kind="managed"), tries=2, guard=None)
    shop.work(run_id)
    (sample,) = shop.samples(run_id)
    assert (sample.state, sample.error_code, sample.attempts) == ("failed", "weight_version_mismatch", 2)


def test_fault_that_passes_costs_an_attempt_and_not_the_sample(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.answers(Answer.nan([10061, END]))
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang))
    shop.work(run_id)
    (sample,) = shop.samples(run_id)
    assert (sample.state, sample.attempt, sample.attempts, sample.error_code) == ("done", 2, 2, None)
    ids = shop.ctx.ids.get(run_id, (sample.id, 2))
    assert ids is not None
    assert ids.output_ids.tolist() == RECORDED_ANSWER
    assert len(fake_sglang.seen("/generate")) == 2


def test_request_that_the_server_rejects_fails_at_once_with_its_sentence(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    fake_sglang.script = lambda _call: Answer(status=400, shape="c", message="top_p is out of range, says the server")
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    (sample,) = shop.samples(run_id)
    assert (sample.state, sample.error_code, sample.attempts) == ("failed", "rejected", 1)
    assert "top_p is out of range, says the server" in (sample.error or "")


def test_busy_server_is_asked_again_later_and_no_attempt_is_spent(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.answers(Answer.busy(), Answer.busy(429))
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang))
    shop.work(run_id)
    assert [(sample.state, sample.attempts) for sample in shop.samples(run_id)] == [("done", 1), ("done", 1)]
    assert len(fake_sglang.seen("/generate")) == 4


def test_unanswered_request_is_aborted_by_its_id_and_tried_again(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.answers(Answer(hang=True))
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang), timeout_s=0.3)
    shop.work(run_id)
    (sample,) = shop.samples(run_id)
    assert (sample.state, sample.attempts) == ("done", 2)
    first, _ = shop.attempts(run_id)
    assert first.error_code == "timeout"
    assert [seen.body["rid"] for seen in fake_sglang.seen("/abort_request")] == [first.rid]


def test_server_that_dies_costs_no_attempt_and_the_run_waits_and_says_so(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    backend_id = shop.backend(fake_sglang)
    run_id = shop.launch(shop.prompts(30), backend_id, concurrency=4)
    fake_sglang.script = lambda call: Answer(die=True) if call.number == 12 else Answer(delay=0.01)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: fake_sglang.dead)
        shop.set_backend(backend_id, observed_state="backoff")
        await until(lambda: shop.run(run_id).reason_kind == "no_backend")
        run = shop.run(run_id)
        assert run.state == "running"
        assert "fake is backoff" in run.reason
        await until(lambda: all(sample.state != "in_flight" for sample in shop.samples(run_id)))
        fake_sglang.script = None
        await asyncio.to_thread(fake_sglang.restart)
        shop.set_backend(backend_id, observed_state="ready")
        await working

    asyncio.run(story())
    run = shop.run(run_id)
    assert (run.state, run.reason_kind) == ("completed", None)
    assert {(sample.state, sample.attempts) for sample in shop.samples(run_id)} == {("done", 1)}
    shop.counts(run_id)


def test_backend_that_the_probe_refused_is_not_used_and_the_run_says_why(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    refused = {"ok": False, "refusals": ["it truncates prompts: start it without --allow-auto-truncate."]}
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang, probe=refused))

    async def story() -> None:
        stop = asyncio.Event()
        working = asyncio.create_task(shop.worked(run_id, stop=stop))
        await until(lambda: shop.run(run_id).reason_kind == "no_backend")
        stop.set()
        await working

    asyncio.run(story())
    run = shop.run(run_id)
    assert run.state == "queued"
    assert "--allow-auto-truncate" in run.reason
    assert fake_sglang.seen("/generate") == []


def test_prompt_that_does_not_fit_fails_before_sending_and_a_large_budget_is_lowered_and_recorded(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    fake_sglang.facts.context_length = 64
    long = shop.prompts(1, messages=[{"role": "user", "content": "one two three " * 40}])
    short = shop.prompts(1)
    backend_id = shop.backend(fake_sglang)
    too_long = shop.launch(long, backend_id, sampling={"max_new_tokens": 20}, guard=None)
    lowered = shop.launch(short, backend_id, sampling={"max_new_tokens": 60})
    shop.work(too_long)
    shop.work(lowered)
    (sample,) = shop.samples(too_long)
    assert (sample.state, sample.error_code) == ("failed", "prompt_too_long")
    assert "fit the context of 64. Shorten the prompt, or " in (sample.error or "")
    (attempt,) = shop.attempts(lowered)
    assert attempt.state == "done"
    assert attempt.sampling["max_new_tokens"] == 64 - attempt.prompt_tokens
    assert len(fake_sglang.seen("/generate")) == 1


def test_template_that_raises_fails_the_sample_with_its_sentence(shop: Workshop, fake_sglang: FakeSglang) -> None:
    folder = shop.ctx.settings.model_roots[0] / "raises"
    from tests.support.tiny_tokenizers import make_tokenizer

    make_tokenizer(folder, template="{{ raise_exception('no such role here') }}")
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang), tokenizer="raises", guard=None)
    shop.work(run_id)
    for sample in shop.samples(run_id):
        assert (sample.state, sample.error_code, sample.attempts) == ("failed", "template_failed", 1)
        assert "no such role here. Change its messages" in (sample.error or "")
    assert fake_sglang.seen("/generate") == []


def test_two_backends_share_the_work(shop: Workshop, start_fake_sglang) -> None:
    fakes = [start_fake_sglang(script=lambda _call: Answer(delay=0.02)) for _ in range(2)]
    ids = [shop.backend(fake, name=f"fake-{number}") for number, fake in enumerate(fakes)]
    run_id = shop.launch(shop.prompts(40), *ids, concurrency=4)
    shop.work(run_id)
    assert [len(fake.seen("/generate")) > 10 for fake in fakes] == [True, True]
    assert sum(len(fake.seen("/generate")) for fake in fakes) == 40
    assert max(fake.model.peak for fake in fakes) <= 4


def test_guard_pauses_a_run_whose_answers_are_all_cut_off(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda _call: Answer(output_ids=[151667, 10061, 752, 151668, *range(300, 340)], delay=0.02)
    run_id = shop.launch(shop.prompts(400), shop.backend(fake_sglang), sampling={"max_new_tokens": 8}, concurrency=8)
    shop.work(run_id)
    run = shop.run(run_id)
    assert (run.state, run.reason_kind) == ("paused", "guard")
    assert run.reason
    assert any(event.kind == "guard" and event.detail["samples"] for event in shop.events(run_id))
    states = [sample.state for sample in shop.samples(run_id)]
    assert states.count("pending") > 0
    assert states.count("in_flight") == 0
    shop.counts(run_id)
    with shop.ctx.db.write() as s:
        resume_run(s, run_id)
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"  # what a person has looked at and let pass stops it no more


def test_paused_run_sends_nothing_more_and_goes_on_where_it_was(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda _call: Answer(delay=0.05)
    run_id = shop.launch(shop.prompts(40), shop.backend(fake_sglang), concurrency=4)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: len(fake_sglang.seen("/generate")) >= 6)
        with shop.ctx.db.write() as s:
            assert pause_run(s, run_id, by="ada").state == "pausing"
        await working

    asyncio.run(story())
    run = shop.run(run_id)
    assert (run.state, run.reason_kind, run.reason) == ("paused", "person", "Paused by ada.")
    states = [sample.state for sample in shop.samples(run_id)]
    sent = len(fake_sglang.seen("/generate"))
    assert states.count("done") == sent
    assert states.count("pending") == 40 - sent
    shop.counts(run_id)
    with shop.ctx.db.write() as s:
        assert resume_run(s, run_id).state == "queued"
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    assert len(fake_sglang.seen("/generate")) == 40


def test_cancelled_run_aborts_what_is_in_flight_and_skips_the_rest(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda call: Answer(hang=call.number > 5)
    run_id = shop.launch(shop.prompts(30), shop.backend(fake_sglang), concurrency=4)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await fake_sglang.until_live(4)
        await until(lambda: sum(sample.state == "done" for sample in shop.samples(run_id)) == 5)
        with shop.ctx.db.write() as s:
            cancel_run(s, run_id)
        await working
        await fake_sglang.until_live(0)

    asyncio.run(story())
    assert shop.run(run_id).state == "cancelled"
    states = [sample.state for sample in shop.samples(run_id)]
    assert (states.count("done"), states.count("skipped")) == (5, 25)
    assert len(fake_sglang.seen("/abort_request")) == 4
    shop.counts(run_id)


def test_cleared_category_is_made_again_and_its_old_attempts_are_kept(shop: Workshop, fake_sglang: FakeSglang) -> None:
    run_id = shop.launch(shop.prompts(10), shop.backend(fake_sglang))
    shop.work(run_id)
    changed = [151667, 4226, 151668, 4226, END]
    fake_sglang.script = lambda _call: changed
    with shop.ctx.db.write() as s:
        count = regenerate(
            s, shop.ctx, run_id, parse_body({"category": ["b"]}), sampling={"temperature": 0.1}, expected_count=5
        )
    assert count == 5
    assert shop.run(run_id).state == "queued"
    assert shop.counts(run_id)["b"]["pending"] == 5
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    for sample in shop.samples(run_id):
        first = shop.ctx.ids.get(run_id, (sample.id, 1))
        assert first is not None
        assert first.output_ids.tolist() == RECORDED_ANSWER
        second = shop.ctx.ids.get(run_id, (sample.id, 2))
        if sample.category == "a":
            assert (sample.attempt, sample.attempts, second) == (1, 1, None)
        else:
            assert second is not None
            assert (sample.attempt, sample.attempts, second.output_ids.tolist()) == (2, 2, changed)
    again = [a for a in shop.attempts(run_id) if a.number == 2]
    assert {attempt.sampling["temperature"] for attempt in again} == {0.1}
    bodies = [seen.body["sampling_params"] for seen in fake_sglang.seen("/generate")]
    assert sorted(body["temperature"] for body in bodies) == [0.1] * 5 + [0.6] * 10
    shop.counts(run_id)


def test_a_null_in_a_regenerate_leaves_nothing_to_the_servers_default(shop: Workshop, fake_sglang: FakeSglang) -> None:
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang), sampling={"max_new_tokens": 77})
    shop.work(run_id)
    with shop.ctx.db.write() as s:
        regenerate(s, shop.ctx, run_id, parse_body({}), sampling={"max_new_tokens": None, "temperature": 0.1})
    shop.work(run_id)
    bodies = [seen.body["sampling_params"] for seen in fake_sglang.seen("/generate")]
    assert [body["max_new_tokens"] for body in bodies] == [77] * 4
    assert sorted(body["temperature"] for body in bodies) == [0.1, 0.1, 0.6, 0.6]


@pytest.mark.parametrize(
    ("sampling", "code"),
    [
        ({"stop_token_ids": [999_999]}, "stop_id_out_of_vocabulary"),
        ({"min_new_tokens": 9_999}, "min_new_tokens_too_large"),
    ],
)
def test_what_a_launch_refuses_a_regenerate_refuses(
    shop: Workshop, fake_sglang: FakeSglang, sampling, code: str
) -> None:
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang))
    shop.work(run_id)
    with pytest.raises(Invalid) as caught, shop.ctx.db.write() as s:
        regenerate(s, shop.ctx, run_id, parse_body({}), sampling=sampling)
    assert caught.value.code == code
    assert shop.run(run_id).state == "completed"


def test_a_server_of_a_smaller_vocabulary_is_sent_nothing(shop: Workshop, fake_sglang: FakeSglang) -> None:
    backend_id = shop.backend(fake_sglang)
    run_id = shop.launch(shop.prompts(1), backend_id)
    with shop.ctx.db.read() as s:
        info = s.get(Backend, backend_id).server_info
    shop.set_backend(backend_id, server_info={**info, "vocab_size": 1000})

    async def story():
        stop = asyncio.Event()
        working = asyncio.create_task(shop.worked(run_id, stop=stop))
        await until(lambda: shop.run(run_id).reason_kind == "no_backend")
        stop.set()
        await working

    asyncio.run(story())
    assert "1,000 ids" in shop.run(run_id).reason
    assert fake_sglang.seen("/generate") == []


def test_failed_samples_are_tried_again_and_only_they(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda call: Answer(status=400, shape="c") if call.number <= 3 else None
    run_id = shop.launch(shop.prompts(10), shop.backend(fake_sglang), guard=None, concurrency=1)
    shop.work(run_id)
    assert shop.run(run_id).state == "completed_with_failures"
    fake_sglang.script = None
    with shop.ctx.db.write() as s:
        assert retry_failed(s, run_id) == 3
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    assert len(fake_sglang.seen("/generate")) == 13
    assert sorted(sample.attempts for sample in shop.samples(run_id)) == [1] * 7 + [2] * 3
    shop.counts(run_id)


def test_result_of_a_superseded_attempt_is_refused(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda call: Answer(delay=0.5) if call.number == 1 else [151667, 4226, 151668, 13, END]
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang))

    async def story():
        working = asyncio.create_task(shop.worked(run_id))
        await fake_sglang.until_live(1)
        with shop.ctx.db.write() as s:
            regenerate(s, shop.ctx, run_id, parse_body({}))
        return await working

    runner = asyncio.run(story())
    (sample,) = shop.samples(run_id)
    assert runner.refused_results == 1
    assert (sample.state, sample.attempts) == ("done", 1)
    ids = shop.ctx.ids.get(run_id, (sample.id, 1))
    assert ids is not None
    assert ids.output_ids.tolist() == [151667, 4226, 151668, 13, END]
    shop.counts(run_id)


def test_stopped_worker_leaves_nothing_behind_that_the_next_one_misses(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda _call: Answer(delay=0.03)
    run_id = shop.launch(shop.prompts(60), shop.backend(fake_sglang), concurrency=4)

    async def first() -> None:
        stop = asyncio.Event()
        working = asyncio.create_task(shop.worked(run_id, stop=stop))
        await until(lambda: len(fake_sglang.seen("/generate")) >= 10)
        stop.set()
        await working

    asyncio.run(first())
    states = [sample.state for sample in shop.samples(run_id)]
    assert states.count("in_flight") == 0
    assert 10 <= states.count("done") < 60
    assert shop.run(run_id).state == "running"
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    assert {(sample.state, sample.attempts) for sample in shop.samples(run_id)} == {("done", 1)}


def test_progress_is_written_and_says_how_far(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda _call: Answer(delay=0.02)
    run_id = shop.launch(shop.prompts(100), shop.backend(fake_sglang), concurrency=1)
    seen = []

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        while not working.done():
            seen.append(shop.run(run_id).progress)
            await asyncio.sleep(0.05)

    asyncio.run(story())
    moving = [progress for progress in seen if progress.get("samples_per_s")]
    assert moving
    assert moving[0]["eta_s"] is not None
    assert shop.run(run_id).progress["eta_s"] == 0


def test_two_regenerates_at_once_keep_each_its_own_sampling(shop: Workshop, fake_sglang: FakeSglang) -> None:
    run_id = shop.launch(shop.prompts(4), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    with shop.ctx.db.write() as s:
        s.get_one(Run, run_id).state = "paused"  # one that has ended is queued by the first, and refuses the second

    def again(category: str, temperature: float) -> None:
        with shop.ctx.db.write() as s:
            regenerate(s, shop.ctx, run_id, parse_body({"category": category}), sampling={"temperature": temperature})

    with ThreadPoolExecutor(1) as thread:
        with shop.ctx.db.write() as s:
            regenerate(s, shop.ctx, run_id, parse_body({"category": "a"}), sampling={"temperature": 0.1})
            other = thread.submit(again, "b", 0.2)
            time.sleep(0.5)  # by now the other one waits for this transaction, or has read what it should not
        other.result()
    with shop.ctx.db.read() as s:
        run = s.get_one(Run, run_id)
        assert run.overrides == {"1": {"sampling": {"temperature": 0.1}}, "2": {"sampling": {"temperature": 0.2}}}
    assert {(sample.category, sample.generation) for sample in shop.samples(run_id)} == {("a", 1), ("b", 2)}
