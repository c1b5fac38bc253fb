"""A sample as people see it: every token in some segment, its text, its calls, its attempts, its neighbours."""

import dataclasses

import pytest

from db.errors import Conflict, Invalid, NotFound
from db.filters import parse_body
from inference.review.reviews import put_review
from inference.review.samples import (
    list_attempts,
    list_sample_rows,
    sample_neighbours,
    sample_tokens,
    sample_view,
    segment_ids,
)
from inference.runs.behind.rederivations import request_rederive
from inference.runs.control import regenerate
from inference.tokens.cache import TokenizerCache
from tests.support.fake_sglang import FakeSglang
from tests.support.workshop import MODEL, Workshop

THINK, UNTHINK, CALL, UNCALL, END = 151667, 151668, 151657, 151658, 151645
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_time",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def ids_of(shop: Workshop, text: str) -> list[int]:
    return shop.ctx.tokenizers.get(MODEL).encode(text)


def test_segments_tile_the_answer_and_carry_its_text_and_calls(shop: Workshop, fake_sglang: FakeSglang) -> None:
    payload = '\n{"name": "get_time", "arguments": {"city": "Oslo"}}\n'
    answer = [
        THINK,
        *ids_of(shop, "The user wants"),
        UNTHINK,
        *ids_of(shop, "Let me look."),
        CALL,
        *ids_of(shop, payload),
        UNCALL,
        END,
    ]
    fake_sglang.script = lambda _call: answer
    user = shop.user()
    run_id = shop.launch(shop.prompts(1, tools=TOOLS), shop.backend(fake_sglang))
    shop.work(run_id)
    with shop.ctx.db.read() as s:
        view = sample_view(s, shop.ctx, shop.samples(run_id)[0].id, user)
    assert view.segments[0].start == 0
    assert [a.end == b.start for a, b in zip(view.segments, view.segments[1:], strict=False)] == [True] * (
        len(view.segments) - 1
    )
    assert view.segments[-1].end == len(answer) == view.completion_tokens
    texts = {segment.kind: segment.text for segment in view.segments if segment.kind != "control"}
    assert texts == {"reasoning": "The user wants", "content": "Let me look.", "tool_call": payload}
    (call,) = [segment for segment in view.segments if segment.kind == "tool_call"]
    assert (call.name, call.arguments, call.arguments_valid) == ("get_time", '{"city": "Oslo"}', True)
    assert view.flags == []
    assert view.prompt_messages == [{"role": "user", "content": "question 0"}]
    assert view.tools == TOOLS
    assert view.attempt_detail is not None
    assert view.attempt_detail.finish_matched == END
    assert view.attempt_detail.backend_name == "fake"
    assert view.attempt_detail.backend_start == 1


def test_every_call_of_a_segment_is_listed_with_its_fault_and_place(shop: Workshop) -> None:
    payload = '[7, {"name": "f", "arguments": {"x": 1.50}}, {"name": "g", "arguments": [1]}]'
    found = segment_ids(shop.ctx, MODEL, "qwen3", None, [CALL, *ids_of(shop, payload), UNCALL, END], "stop")
    (segment,) = [item for item in found.segments if item.kind == "tool_call"]
    assert (segment.name, segment.arguments, segment.arguments_valid) == ("f", '{"x": 1.50}', True)
    assert [(call.name, call.arguments, call.arguments_valid, call.position) for call in segment.calls] == [
        (None, None, False, payload.index("7")),
        ("f", '{"x": 1.50}', True, None),
        ("g", "[1]", False, payload.index("[1]")),
    ]
    assert [call.error is None for call in segment.calls] == [False, True, False]


def test_tokens_are_the_stored_ids_and_pieces_spell_them(shop: Workshop, fake_sglang: FakeSglang) -> None:
    answer = [THINK, *ids_of(shop, "né 日"), UNTHINK, *ids_of(shop, "ok"), END]
    fake_sglang.script = lambda _call: answer
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang))
    shop.work(run_id)
    sample_id = shop.samples(run_id)[0].id
    with shop.ctx.db.read() as s:
        bare = sample_tokens(s, shop.ctx, sample_id)
        full = sample_tokens(s, shop.ctx, sample_id, with_pieces=True)
    assert bare.output_ids == full.output_ids == answer
    assert bare.pieces is None
    assert full.pieces is not None
    assert [piece.id for piece in full.pieces] == answer
    assert "".join(piece.text for piece in full.pieces) == "<think>né 日</think>ok<|im_end|>"
    assert full.model_dump(mode="json")["pieces"][0]["kind"] in {"special", "added"}
    sent = [seen.body["input_ids"] for seen in fake_sglang.seen("/generate")]
    assert sent == [bare.prompt_ids]


def test_old_attempt_can_be_looked_at_with_its_own_flags_and_judgement(shop: Workshop, fake_sglang: FakeSglang) -> None:
    user = shop.user()
    fake_sglang.script = lambda _call: [THINK, *ids_of(shop, "I never stop thinking"), END]
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang))
    shop.work(run_id)
    sample_id = shop.samples(run_id)[0].id
    with shop.ctx.db.write() as s:
        put_review(s, sample_id, user, "bad", [], "unclosed")
        regenerate(s, shop.ctx, run_id, parse_body({"flag": ["reasoning_unclosed"]}))
    fake_sglang.script = None
    shop.work(run_id)
    with shop.ctx.db.read() as s:
        now = sample_view(s, shop.ctx, sample_id, user)
        old = sample_view(s, shop.ctx, sample_id, user, attempt=1)
        attempts = list_attempts(s, shop.ctx, sample_id)
        with pytest.raises(NotFound):
            sample_view(s, shop.ctx, sample_id, user, attempt=3)
    assert "reasoning_unclosed" not in {flag.code for flag in now.flags}
    assert "reasoning_unclosed" in {flag.code for flag in old.flags}
    assert now.my_review is None
    assert old.my_review is not None
    assert (old.my_review.verdict, [verdict.verdict for verdict in old.verdicts]) == ("bad", ["bad"])
    assert (now.verdicts, now.attempt, old.attempt) == ([], 2, 1)
    assert [(attempt.number, attempt.current) for attempt in attempts] == [(2, True), (1, False)]


def test_next_skips_nothing_when_judging_takes_the_sample_out_of_the_filter(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    user = shop.user()
    run_id = shop.launch(shop.prompts(6), shop.backend(fake_sglang))
    shop.work(run_id)
    todo = parse_body({"verdict": ["none"]})
    with shop.ctx.db.read() as s:
        (first, *_) = list_sample_rows(s, run_id, todo).items
    visited = []
    current: int | None = first.id
    while current is not None:
        visited.append(current)
        with shop.ctx.db.write() as s:
            put_review(s, current, user, "good", [], "")
            around = sample_neighbours(s, current, todo)
        assert around.total == 6 - len(visited)
        current = around.next
    assert visited == [sample.id for sample in shop.samples(run_id)]


def test_rows_show_pending_and_failed_samples_too(shop: Workshop, fake_sglang: FakeSglang) -> None:
    from tests.support.fake_sglang import Answer

    user = shop.user()
    fake_sglang.script = lambda _call: Answer(status=400, shape="c", message="no")
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    with shop.ctx.db.read() as s:
        rows = list_sample_rows(s, run_id, parse_body({"state": ["failed"]})).items
        view = sample_view(s, shop.ctx, rows[0].id, user)
        tokens = sample_tokens(s, shop.ctx, rows[0].id)
    assert [row.error_code for row in rows] == ["rejected", "rejected"]
    assert view.segments == []
    assert tokens.prompt_ids
    assert tokens.output_ids == []


def test_ids_of_no_run_are_segmented_and_bad_ones_are_named(shop: Workshop) -> None:
    found = segment_ids(shop.ctx, MODEL, "qwen3", None, [THINK, 10, UNTHINK, 11, END], "stop")
    assert [segment.kind for segment in found.segments] == ["control", "reasoning", "control", "content", "control"]
    for wrong, field in [
        ({"tokenizer": "nowhere"}, "tokenizer"),
        ({"token_format": "klingon"}, "token_format"),
        ({"output_ids": [-1]}, "output_ids"),
    ]:
        given = {"tokenizer": MODEL, "token_format": "qwen3", "prompt_ids": None, "output_ids": [1], **wrong}
        with pytest.raises(Invalid) as caught:
            segment_ids(shop.ctx, **given)
        assert caught.value.field == field


def test_a_sample_is_shown_without_its_tokenizer_and_says_why(shop: Workshop, fake_sglang: FakeSglang) -> None:
    answer = [THINK, *ids_of(shop, "Plan."), UNTHINK, *ids_of(shop, "Done."), END]
    fake_sglang.script = lambda _call: answer
    user = shop.user()
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang))
    shop.work(run_id)
    sample_id = shop.samples(run_id)[0].id
    bare = dataclasses.replace(shop.ctx, tokenizers=TokenizerCache([], allow_remote_code=False))
    with shop.ctx.db.read() as s:
        view = sample_view(s, bare, sample_id, user)
        tokens = sample_tokens(s, bare, sample_id)
    assert [(segment.kind, segment.end) for segment in view.segments][-1] == ("control", len(answer))
    assert {segment.text for segment in view.segments} == {""}
    assert [flag.code for flag in view.flags] == ["tokenizer_gone"]
    assert tokens.output_ids == answer, "the ids need no tokenizer"


def test_an_answer_made_meanwhile_is_not_judged_unseen(shop: Workshop, fake_sglang: FakeSglang) -> None:
    user = shop.user()
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang))
    shop.work(run_id)
    sample_id = shop.samples(run_id)[0].id
    with shop.ctx.db.write() as s:
        regenerate(s, shop.ctx, run_id, parse_body({}))
    shop.work(run_id)
    with shop.ctx.db.write() as s, pytest.raises(Conflict, match="you looked at attempt 1, now there is attempt 2"):
        put_review(s, sample_id, user, "bad", [], "", attempt=1)
    with shop.ctx.db.write() as s:
        assert put_review(s, sample_id, user, "bad", [], "", attempt=2).verdict == "bad"


def shown(shop: Workshop, run_id: int, attempt: int | None = None):
    with shop.ctx.db.read() as s:
        return sample_view(s, shop.ctx, shop.samples(run_id)[0].id, 1, attempt)


def test_what_sglangs_parser_would_have_returned_is_shown_beside_the_ids(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    answer = [*ids_of(shop, "Let me think."), UNTHINK, *ids_of(shop, "Oslo"), END]  # closed, never opened
    fake_sglang.script = lambda _call: answer
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    view = shown(shop, run_id)
    readings = {reading.parser: reading for reading in view.engine_readings}
    assert set(readings) == {"qwen3", "qwen3-thinking", None}
    bare = readings[None]
    assert (bare.reasoning, bare.same) == ("", False)
    assert bare.sentences
    assert all((not reading.sentences) == reading.same for reading in readings.values())
    assert view.drift is None


def test_drift_is_told_of_the_one_sample_that_is_looked_at(shop: Workshop, fake_sglang: FakeSglang) -> None:
    word = ids_of(shop, "question")
    spelled = [number for letter in "question" for number in ids_of(shop, letter)]
    assert word != spelled
    fake_sglang.script = lambda _call: [THINK, *word, UNTHINK, *spelled, END]
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    shop.catch_up()
    drift = shown(shop, run_id).drift
    assert drift is not None
    first = next(at for at, (one, other) in enumerate(zip(word, spelled, strict=False)) if one != other)
    assert drift.position == 2 + len(word) + first
    assert drift.ids[0] == spelled[first]
    assert drift.becomes[0] == word[first]
    assert "retokenization_drift" not in {flag.code for flag in shown(shop, run_id).flags}  # off unless asked for


def test_a_run_that_asks_for_drift_has_it_as_a_flag(shop: Workshop, fake_sglang: FakeSglang) -> None:
    spelled = [number for letter in "question" for number in ids_of(shop, letter)]
    fake_sglang.script = lambda _call: [THINK, *ids_of(shop, "a"), UNTHINK, *spelled, END]
    checks = {"retokenization_drift": True}
    run_id = shop.launch(shop.prompts(1), shop.backend(fake_sglang), guard=None, checks=checks)
    shop.work(run_id)
    shop.catch_up()
    assert [flag.code for flag in shown(shop, run_id).flags] == ["retokenization_drift"]


def test_an_older_attempt_is_checked_as_the_run_checks_and_read_as_it_is_read_now(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    fake_sglang.script = lambda _call: [THINK, UNTHINK, *ids_of(shop, "ok"), END]
    checks = {"reasoning_empty": False}
    for switched, codes in ((checks, []), ({}, ["reasoning_empty"])):
        run_id = shop.launch(
            shop.prompts(1), shop.backend(fake_sglang, name=f"b{len(codes)}"), guard=None, checks=switched
        )
        shop.work(run_id)
        with shop.ctx.db.write() as s:
            regenerate(s, shop.ctx, run_id, parse_body({}))
        shop.work(run_id)
        assert [flag.code for flag in shown(shop, run_id, 1).flags] == codes
    with shop.ctx.db.write() as s:
        request_rederive(s, shop.ctx, run_id, "none")
    shop.catch_up()
    assert {segment.kind for segment in shown(shop, run_id, 1).segments} == {"content", "control"}
