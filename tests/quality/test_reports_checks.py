"""What people met in finished rows: each fault told where it is, in every family it can befall, its cause before its consequence."""

import numpy as np
import pytest

from inference.quality.drift import drift_flag, find_drift
from inference.quality.flags import FLAG_CODES
from inference.tokens.formats import all_formats, bind, get_format
from tests.support.families import CLOSED, OPENED, PROMPTS, SILENT, Family
from tests.support.tokenizers import real_tokenizer

NAMES = [item.name for item in all_formats()]
CALLING = [item.name for item in all_formats() if item.calls]
SPEAKING = [item.name for item in all_formats() if item.turn_starts or item.messages]


@pytest.mark.parametrize("finish", ["stop", "length", "abort", ""])
@pytest.mark.parametrize("think", [OPENED, CLOSED, SILENT])
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_of_nothing_is_empty_however_it_ended(
    families: dict[str, Family], name: str, think: str, finish: str
) -> None:
    family = families[name]
    for output in ([], [min(family.bound.stop_ids)]):
        codes = family.codes(output, think, finish)
        assert "output_empty" in codes
        assert set(codes) <= {"output_empty", "truncated", "finish_mismatch"}
        assert ("truncated" in codes) == (finish == "length")


@pytest.mark.parametrize("name", SPEAKING)
def test_another_turn_inside_or_behind_the_answer_is_told_where_it_begins(
    families: dict[str, Family], name: str
) -> None:
    family = families[name]
    declared = family.bound.format
    stop = declared.stops[0]
    speaker = f"{declared.messages.start}user" if declared.messages else declared.turn_starts[0]
    first = declared.messages.start if declared.messages else declared.turn_starts[0]
    inside, behind = (f"done{speaker}more{stop}", f"done{stop}{speaker}more")
    if declared.messages:
        body = f"{declared.messages.channel}final{declared.messages.body}"
        inside = f"{body}done{declared.messages.end}{speaker}{declared.messages.body}more{stop}"
        behind = body + behind
    for output, severity in ((inside, "error"), (behind, "warning")):
        ids = family.ids(output)
        (found,) = (flag for flag in family.inspect(output, CLOSED).flags if flag.code == "role_marker_in_output")
        assert found.severity == severity
        assert family.tokenizer.decode(ids[found.start : found.end]).startswith(first)


@pytest.mark.parametrize("name", CALLING)
def test_a_call_that_the_limit_cut_is_truncated_before_it_is_broken(families: dict[str, Family], name: str) -> None:
    family = families[name]
    calls = family.bound.format.calls
    assert calls is not None
    codes = family.codes(f'{calls.section_begin or ""}{calls.begin}{{"na', CLOSED, "length")
    assert codes[:2] == ["truncated", "tool_call_unclosed"]
    assert len(codes) > 2


@pytest.mark.parametrize("token", ["<tool_response>", "</tool_response>"])
def test_a_control_token_in_reasoning_is_told_there(qwen3: Family, token: str) -> None:
    output = f"one{token}two</think>Hi<|im_end|>"
    (found,) = qwen3.inspect(output, OPENED).flags
    assert (found.code, found.message) == ("control_in_content", f"The control token {token} stands in reasoning.")
    assert qwen3.tokenizer.decode(qwen3.ids(output)[found.start : found.end]) == token


def test_a_stop_that_this_request_did_not_stop_at_is_a_control_token_in_reasoning(qwen3: Family) -> None:
    family, stop = qwen3, qwen3.ids("<|im_end|>")[0]
    output = [*family.ids("one"), stop, *family.ids("two</think>Hi<|endoftext|>")]
    bound = family.bound
    found = bound.segment(family.prompt_ids(OPENED), output, frozenset({output[-1]}))
    assert [part.kind for part in found.segments] == ["reasoning", "control", "content", "control"]
    assert family.codes(output, OPENED)[0] == "reasoning_unclosed"  # it is one by the family's own stops


def test_a_channel_that_begins_inside_analysis_is_told_there(families: dict[str, Family]) -> None:
    output = "<|channel|>analysis<|message|>so<|channel|>final<|message|>Hi<|return|>"
    found = families["gpt_oss"].inspect(output)
    told = [flag.message for flag in found.flags if flag.code == "control_in_content"]
    assert told == [f"The control token {token} stands in reasoning." for token in ("<|channel|>", "<|message|>")]
    assert [part.kind for part in found.segmentation.segments].count("reasoning") == 1


def test_calls_that_are_text_of_reasoning_are_told_once(kimi: Family) -> None:
    inner = "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    output = f"a<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|></think>Hi<|im_end|>"
    assert kimi.codes(output, OPENED) == ["tool_call_in_reasoning"]


@pytest.mark.parametrize(
    ("name", "tokenizer", "token"),
    [
        ("qwen3", "qwen3", "<|fim_middle|>"),
        ("qwen3_coder", "qwen3", "<|file_sep|>"),
        ("hermes", "qwen3", "<|repo_name|>"),
        ("qwen3", "qwen3", "<tool_response>"),
        ("qwen3", "qwen3", "<|vision_start|>"),
        ("deepseek_v3", "deepseek_v3", "<｜fim▁hole｜>"),
        ("deepseek_v3", "deepseek_v3", "<｜tool▁output▁begin｜>"),
        ("deepseek_v3", "deepseek_v3", "<｜tool▁sep｜>"),
    ],
)
def test_a_left_over_marker_in_content_is_told_though_the_tokenizer_calls_it_ordinary(
    name: str, tokenizer: str, token: str
) -> None:
    loaded = real_tokenizer(tokenizer)
    family = Family(bind(get_format(name), loaded), loaded, PROMPTS.get(name, PROMPTS["deepseek_r1"]))
    assert family.codes(f"a{token}b{family.bound.format.stops[0]}", CLOSED) == ["control_in_content"]


@pytest.mark.parametrize("word", ["thinking", "thought", "reasoning"])
def test_reasoning_in_tags_of_another_spelling_is_content_and_a_note(qwen3: Family, word: str) -> None:
    found = qwen3.inspect(f"<{word}>x</{word}>y<|im_end|>", CLOSED)
    assert [part.kind for part in found.segmentation.segments] == ["content", "control"]
    assert [(flag.code, flag.severity) for flag in found.flags] == [("delimiter_spelled", "info")] * 2
    assert qwen3.codes(f"<{word}s>x y<|im_end|>", CLOSED) == []


def test_drift_behind_the_last_id_cites_the_last_id(qwen3: Family) -> None:
    lead = qwen3.ids("🦀")[:1]
    ids = np.array([*qwen3.ids("a"), *qwen3.ids("\ufffd")[:2]], dtype=np.uint32)
    for given in (ids, np.array(lead, dtype=np.uint32), ids[:2]):
        drift = find_drift(qwen3.tokenizer, given)
        assert drift is not None
        found = drift_flag(qwen3.tokenizer, drift)
        assert found.start is not None
        assert found.end is not None
        assert found.start < found.end <= len(given)
        assert "instead of ." not in found.message


def test_no_code_of_an_answer_is_without_place(qwen3: Family) -> None:
    """A flag that cites a range of no ids could not be shown; only an empty block has no id but its delimiters'."""
    for output in (f"{'<think></think>' * 3}", "a</think><|im_end|>b", "<tool_call></tool_call><think>"):
        ids = qwen3.ids(output)
        for flag in qwen3.inspect(ids, SILENT).flags:
            assert flag.code in FLAG_CODES
            assert flag.start is not None
            assert flag.end is not None
            assert flag.start < flag.end <= len(ids)
