"""What SGLang would have returned for an answer's ids, and the sentences that say where it departs from the segments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.tokens.sglang.reading import NO_PARSER, EngineReading, engine_readings
from tests.support.families import CLOSED, NAMES, OPENED, SILENT, Family

FAMILIES = sorted(NAMES)


def readings(
    family: Family, output: str, think: str = SILENT, *, tools: bool | None = None
) -> dict[str, EngineReading]:
    ids = family.ids(output)
    found = engine_readings(family.bound, family.tokenizer, ids, family.segment(output, think), tools=tools)
    return {reading.parser: reading for reading in found}


def sentences(family: Family, output: str, think: str = SILENT, parser: str = "qwen3") -> tuple[str, ...]:
    return readings(family, output, think)[parser].sentences


def count(family: Family, text: str) -> int:
    return len(family.ids(text))


def test_where_parser_and_ids_agree_nothing_is_told(qwen3: Family) -> None:
    found = readings(qwen3, "<think>plan</think>\n\nAnswer<|im_end|>")["qwen3"]
    assert (found.reasoning, found.content) == ("plan", "\n\nAnswer")
    assert found.same
    assert found.sentences == ()
    for output, think in (
        ("plan</think>Answer<|im_end|>", OPENED),
        ("Hi<|im_end|>", CLOSED),
        ("plan<tool_call>\n{}\n</tool_call><|im_end|>", OPENED),
        ("<think>a</think>b</think>c<|im_end|>", SILENT),
        ("<think>a<tool_call>b</think>c<|im_end|>", SILENT),
        ("<think>cut short", SILENT),
        ("\n\n", CLOSED),
    ):
        assert readings(qwen3, output, think)["qwen3"].same, output


def test_without_a_parser_the_think_block_sits_inside_content(qwen3: Family) -> None:
    found = readings(qwen3, "<think>plan</think>Answer<|im_end|>")[NO_PARSER]
    assert (found.reasoning, found.content) == ("", "<think>plan</think>Answer")
    assert found.sentences == (
        f"reasoning would be '' (ours: {count(qwen3, 'plan')} tokens)",
        "the whole answer, its <think> and </think> included, would be content",
    )


def test_a_close_without_an_open_is_content_where_nothing_was_forced(qwen3: Family) -> None:
    found = readings(qwen3, "plan</think>Answer<|im_end|>", OPENED)
    assert found["qwen3"].forced
    assert found["qwen3"].same
    assert found[NO_PARSER].sentences[1] == "the whole answer, its </think> included, would be content"


def test_an_answer_without_thought_is_filed_as_reasoning_by_a_parser_that_forces(qwen3: Family) -> None:
    told = (
        f"the whole answer ({count(qwen3, 'Hi there')} tokens) would be filed as reasoning, and content would be ''",
    )
    assert sentences(qwen3, "Hi there<|im_end|>", CLOSED, "qwen3-thinking") == told
    assert sentences(qwen3, "Hi there<|im_end|>", CLOSED, "qwen3") == ()
    # thinking is on unless it was switched off, and then the prompt closes the block
    assert sentences(qwen3, "Hi there<|im_end|>", SILENT, "qwen3") == told


def test_text_before_the_open_becomes_reasoning_and_the_tag_with_it(qwen3: Family) -> None:
    assert sentences(qwen3, "Hi <think>plan</think>Answer<|im_end|>") == (
        f"{count(qwen3, 'Hi ')} tokens of the answer would be filed as reasoning",
        "<think> would stay in the reasoning as text",
    )


def test_a_space_before_the_open_is_enough_to_keep_the_tag(qwen3: Family) -> None:
    assert sentences(qwen3, " <think>plan</think>Answer<|im_end|>") == ("<think> would stay in the reasoning as text",)


def test_a_second_block_stays_in_content(qwen3: Family) -> None:
    assert sentences(qwen3, "<think>a</think>x<think>b</think>y<|im_end|>") == (
        "the second think block would stay in content, tags included (1 token)",
    )
    assert sentences(qwen3, "<think>a</think>x<think>b</think><think>c</think>y<|im_end|>") == (
        "2 further think blocks would stay in content, tags included (2 tokens)",
    )


def test_a_close_spelled_with_ordinary_ids_cuts_the_text_and_not_the_ids(qwen3: Family) -> None:
    spelled = [number for part in ("</", "think", ">") for number in qwen3.ids(part)]
    ids = [*qwen3.ids("<think>plan"), *spelled, *qwen3.ids("more</think>Answer<|im_end|>")]
    found = engine_readings(qwen3.bound, qwen3.tokenizer, ids, qwen3.bound.segment(qwen3.prompt_ids(), ids))
    assert (found[0].reasoning, found[0].content) == ("plan", "more</think>Answer")
    assert found[0].sentences == (
        f"{count(qwen3, 'more')} tokens of the reasoning would be content",
        f"{len(spelled)} tokens of the reasoning would be dropped",
        "</think> would stay in content as text",
    )


def test_a_call_before_the_close_is_reasoning_to_a_parser_that_does_not_know_calls(deepseek: Family) -> None:
    call = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>"
    told = sentences(deepseek, f"plan<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>", OPENED, "deepseek-r1")
    inside = call.removeprefix("<｜tool▁call▁begin｜>").removesuffix("<｜tool▁call▁end｜>")
    assert told == (
        f"{count(deepseek, inside)} tokens of tool calls would be filed as reasoning, where no call is looked for",
    )


def test_tags_flagged_special_do_not_reach_the_parser_unless_tools_are_offered(kimi: Family) -> None:
    assert kimi.bound.ids["</think>"] in kimi.tokenizer.special_ids
    output = "plan</think>Answer<|im_end|>"
    found = readings(kimi, output, OPENED)["kimi_k2"]
    assert (found.reasoning, found.content) == ("planAnswer", "")
    assert found.sentences[-1] == "</think> would not reach the parser, as a token flagged special is no text"
    assert readings(kimi, output, OPENED, tools=True)["kimi_k2"].same


def test_the_stop_is_no_part_of_the_text_and_a_format_without_parsers_has_no_readings(
    families: dict[str, Family],
) -> None:
    qwen3 = families["qwen3"]
    assert readings(qwen3, "<think>a</think>b<|im_end|>", tools=True)["qwen3"].content == "b"
    assert readings(families["none"], "Hello<|im_end|>") == {}
    assert readings(qwen3, "") == {}


ANALYSIS = "<|channel|>analysis<|message|>Think.<|end|>"
CALL = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"


def test_harmony_s_call_is_kept_with_its_stop_only_where_tools_are_offered(families: dict[str, Family]) -> None:
    family = families["gpt_oss"]
    with_tools = readings(family, ANALYSIS + CALL, tools=True)["gpt-oss"]
    assert (with_tools.reasoning, with_tools.content, with_tools.same) == ("Think.", CALL, True)
    without = readings(family, ANALYSIS + CALL, tools=False)["gpt-oss"]
    assert (without.reasoning, without.content) == ("Think.", "")
    assert without.sentences[0].endswith("tokens of tool calls would be dropped")


def test_an_answer_that_harmony_s_parser_waits_for_is_dropped_whole(families: dict[str, Family]) -> None:
    family = families["gpt_oss"]
    answer = "<|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    assert readings(family, ANALYSIS + answer)["gpt-oss"].same
    odd = ANALYSIS + "<|start|>assistant<|channel|>other<|message|>x<|end|>" + answer
    assert readings(family, odd)["gpt-oss"].sentences == (
        f"the whole answer ({count(family, 'Hi')} tokens) would be dropped, and content would be ''",
    )


def test_magistral_s_reading_hangs_on_the_request_s_effort(families: dict[str, Family]) -> None:
    family = families["magistral"]
    ids = family.ids("Answer</s>")
    found = engine_readings(family.bound, family.tokenizer, ids, family.bound.segment(family.prompt_ids(), ids))
    assert [(item.parser, item.forced, item.same, item.condition) for item in found] == [
        ("mistral", True, False, "reasoning_effort set"),
        ("mistral", False, True, "reasoning_effort not set"),
        (NO_PARSER, False, True, ""),
    ]


def test_the_parser_that_appends_the_tag_leaves_reasoning_empty(families: dict[str, Family]) -> None:
    family = families["minimax_m2"]
    found = readings(family, "plan\n</think>\n\nOK[e~[", OPENED)
    assert found["minimax"].same
    appended = found["minimax-append-think"]
    assert (appended.reasoning, appended.content) == ("", "<think>plan\n</think>\n\nOK")
    assert appended.sentences == (
        f"reasoning would be '' (ours: {count(family, 'plan' + chr(10))} tokens)",
        "the whole answer, its </think> included, would be content",
        "<think> would be put before the content",
    )


def test_tags_that_a_vocabulary_spells_are_tags_to_both(families: dict[str, Family]) -> None:
    family = families["deepseek_v3"]
    assert "<think>" not in family.bound.ids
    found = readings(family, "<think>plan</think>Answer<｜end▁of▁sentence｜>")
    assert found["deepseek-v3"].same
    assert found[NO_PARSER].sentences[1] == "the whole answer, its <think> and </think> included, would be content"


def test_a_character_made_by_several_ids_goes_where_it_begins(qwen3: Family) -> None:
    text = "<think>é🙂</think>🙂<|im_end|>"
    assert readings(qwen3, text)["qwen3"].same
    ids = qwen3.ids("<think>a</think>🙂")[:-1]  # ends inside the character
    segmentation = qwen3.bound.segment(qwen3.prompt_ids(), ids)
    found = engine_readings(qwen3.bound, qwen3.tokenizer, ids, segmentation)[0]
    assert (found.reasoning, found.content, found.same) == ("a", "\ufffd", True)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_ids_have_readings(families: dict[str, Family], name: str, data: st.DataObject) -> None:
    family = families[name]
    known = sorted({*family.bound.ids.values(), *family.bound.stop_ids})
    text = st.sampled_from([198, 220, 5, 64, 65, 92, 90, 172, 253, 247, 224, 2**32 - 1, 999_999])
    one = st.one_of(st.sampled_from(known), text, st.integers(0, 2**32 - 1)) if known else text
    ids = np.array(data.draw(st.lists(one, max_size=40)), dtype=np.uint32)
    think = data.draw(st.sampled_from([OPENED, CLOSED, SILENT]))
    tools = data.draw(st.sampled_from([None, True, False]))
    segmentation = family.bound.segment(family.prompt_ids(think), ids)
    for reading in engine_readings(family.bound, family.tokenizer, ids, segmentation, tools=tools):
        assert reading.same == (not reading.sentences)
        assert len(set(reading.sentences)) == len(reading.sentences)
