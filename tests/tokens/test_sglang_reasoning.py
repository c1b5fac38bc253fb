"""What SGLang's reasoning parsers make of a text: the consequences of their algorithm, row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.tokens.formats import all_formats
from inference.tokens.sglang.reasoning import PARSERS, parse
from inference.tokens.sglang.spans import Parsed

MARKERS = sorted(
    {mark for item in PARSERS.values() for mark in (item.open, item.close, item.tool_start) if mark}
    | {
        "<|start|>",
        "<|message|>",
        "<|call|>",
        "<|return|>",
        "<|strange|>",
        "<|",
        "commentary",
        "assistantfinal",
        "\n",
        " ",
    }
)


def said(key: str, text: str, *, forced: bool = False) -> tuple[str, str]:
    return parse(key, text, forced=forced)[:2]


@pytest.mark.parametrize(
    ("text", "when_forced", "when_not"),
    [
        ("plan</think>\n\nOK", ("plan", "\n\nOK"), ("", "plan</think>\n\nOK")),
        ("<think>plan</think>OK", ("plan", "OK"), ("plan", "OK")),
        ("<think><think>plan</think>OK", ("plan", "OK"), ("plan", "OK")),
        ("Hm. <think>plan</think>OK", ("Hm. <think>plan", "OK"), ("Hm. <think>plan", "OK")),
        ("<think>plan", ("plan", ""), ("plan", "")),
        ("plan", ("plan", ""), ("", "plan")),
        ("<think>plan<tool_call>f", ("plan", "<tool_call>f"), ("plan", "<tool_call>f")),
        ("<think>a<tool_call>f</think>b", ("a<tool_call>f", "b"), ("a<tool_call>f", "b")),
        ("<think>a</think>b</think>c", ("a", "b</think>c"), ("a", "b</think>c")),
        ("<think>a</think>b<think>c</think>d", ("a", "b<think>c</think>d"), ("a", "b<think>c</think>d")),
        ("<think>\n\n</think>OK", ("\n\n", "OK"), ("\n\n", "OK")),
        ("<thinking>plan</thinking>OK", ("<thinking>plan</thinking>OK", ""), ("", "<thinking>plan</thinking>OK")),
        ("", ("", ""), ("", "")),
    ],
)
def test_the_shared_algorithm_forced_and_not(
    text: str, when_forced: tuple[str, str], when_not: tuple[str, str]
) -> None:
    assert said("qwen3", text, forced=True) == when_forced
    assert said("qwen3", text) == when_not
    assert said("qwen3-thinking", text) == when_forced


def test_a_key_that_forces_does_so_whatever_is_asked_and_one_that_never_forces_likewise() -> None:
    for key in ("deepseek-r1", "step3", "step3p5", "minimax", "qwen3-thinking"):
        assert said(key, "The answer.") == ("The answer.", "")
    assert said("kimi", "plan◁/think▷OK", forced=True) == ("", "plan◁/think▷OK")
    assert said("kimi", "◁think▷plan◁/think▷OK") == ("plan", "OK")


def test_only_the_family_s_own_tool_marker_ends_reasoning() -> None:
    assert said("deepseek-r1", "plan<tool_call>f") == ("plan<tool_call>f", "")
    assert said("deepseek-v4", "<think>plan<tool_call>f") == ("plan<tool_call>f", "")
    section = "<|tool_calls_section_begin|>"
    assert said("kimi_k2", f"<think>plan{section}f") == ("plan", f"{section}f")
    assert said("hunyuan", "<think>plan<tool_calls>f") == ("plan", "<tool_calls>f")


def test_parsers_that_move_text_or_add_to_it() -> None:
    assert said("minimax-append-think", "plan\n</think>\n\nOK") == ("", "<think>plan\n</think>\n\nOK")
    assert said("ling3", "<think>The answer is 4.") == ("", "The answer is 4.")
    assert said("ling3", "<think>plan</think>") == ("", "plan")
    assert said("granite_thinking_parser", "<think>plan\n</think>\n\nOK") == ("plan\n", "OK")
    assert said("minimax-m3", "\n</mm:think>OK") == ("", "OK")
    assert said("gemma4", "<|channel>thought\nplan<channel|>OK") == ("plan", "OK")
    assert said("mistral", "[THINK]plan[/THINK]OK") == ("plan", "OK")


ANALYSIS, FINAL = "<|channel|>analysis<|message|>Think.<|end|>", "<|start|>assistant<|channel|>final<|message|>Hi"
CALL = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ANALYSIS + FINAL, ("Think.", "Hi")),
        (ANALYSIS + FINAL + "<|return|>", ("Think.", "Hi")),
        (ANALYSIS + CALL, ("Think.", CALL)),
        (ANALYSIS + CALL.removesuffix("<|call|>"), ("Think.", "")),
        (ANALYSIS + "<|start|>assistant<|channel|>commentary<|message|>So.<|end|>" + FINAL, ("Think.", "So.Hi")),
        (ANALYSIS + "<|channel|>other<|message|>x<|end|>" + FINAL, ("Think.", "")),
        ("<|channel|><|channel|>final<|message|>y", ("", "")),
        ("<|channel|>analysis<|message|>cut", ("cut", "")),
        (CALL + "commentary" + FINAL, ("", CALL + "Hi")),
        (ANALYSIS + "commentary<|message|>x<|end|>", ("Think.", "commentaryx")),
        ("analysisThink.assistantfinalHi", ("Think.", "Hi")),
        ("assistantfinal Hi ", ("", "Hi")),
        ("analysis by a bana", (" by a ban", "")),
        ("Hello there.", ("", "")),
    ],
)
def test_harmony_as_read_from_text(text: str, expected: tuple[str, str]) -> None:
    assert said("gpt-oss", text) == expected


@pytest.mark.parametrize("key", sorted(PARSERS))
@given(
    text=st.lists(st.one_of(st.sampled_from(MARKERS), st.text(max_size=3)), max_size=30).map("".join),
    forced=st.booleans(),
)
def test_any_text_is_read_and_every_span_lies_in_it_once(key: str, text: str, forced: bool) -> None:
    found: Parsed = parse(key, text, forced=forced)
    at = 0
    for span in sorted(found.spans, key=lambda span: span.start):
        assert at <= span.start < span.end <= len(text)
        at = span.end
    parts = {"reasoning": "", "content": found.added}
    for span in found.spans:
        parts[span.field] += text[span.start : span.end]
    assert (found.reasoning, found.content) == (parts["reasoning"], parts["content"])


def test_every_parser_that_a_family_names_is_known() -> None:
    named = {key for item in all_formats() for key in item.reasoning_parsers}
    assert named
    assert named <= set(PARSERS)
