"""Markers that stand in content: the family's own by id, spelled with ordinary ids, and those of other families."""

import pytest

from tests.quality.reading import cited, read
from tests.support.families import CLOSED, Family

END = "<|im_end|>"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("Hi <|im_start|>user", "role_marker_in_output"),
        ("Hi <|im_start|>user", "control_in_content"),
        ("Hi </tool_call>", "control_in_content"),
        ("Hi <tool_response>x</tool_response>", "control_in_content"),
        ("Hi </think>", "extra_close"),
    ],
)
def test_the_familys_own_markers_are_found_by_id(qwen3: Family, content: str, code: str) -> None:
    assert code in qwen3.codes(f"{content}{END}", CLOSED)
    assert read(qwen3, content) == ()  # told once


@pytest.mark.parametrize(
    "marker",
    [
        *(
            "<|tool_call_begin|>",
            "<|tool_calls_section_begin|>",
            "<|eot_id|>",
            "<|start_header_id|>",
            "[INST]",
            "[/INST]",
        ),
        *(
            "<｜Assistant｜>",
            "<｜tool▁calls▁begin｜>",
            "<start_of_turn>",
            "<|channel|>",
            "<|assistant|>",
            "<<SYS>>",
            "[TOOL_CALLS]",
        ),
    ],
)
def test_another_familys_marker_in_content_is_noted_where_it_stands(qwen3: Family, marker: str) -> None:
    content = f"🦀 Hi there. {marker} Then more."
    (found,) = read(qwen3, content)
    assert (found.code, found.severity) == ("marker_foreign", "info")
    assert marker in cited(qwen3, content, found)
    assert len(cited(qwen3, content, found)) < len(marker) + 6
    assert marker in found.message
    assert read(qwen3, "Hi.", reasoning=content) == ()


def test_a_marker_of_this_family_is_foreign_to_another(families: dict[str, Family]) -> None:
    import numpy as np

    from inference.quality.inspection import inspect_text

    other = families["none"]
    ids = np.array(other.ids("Hi <think>x</think> there"), dtype=np.uint32)
    found = inspect_text(other.bound, other.tokenizer, "", ids, other.bound.segment(None, ids))
    assert [flag.code for flag in found] == ["marker_foreign", "marker_foreign"]


@pytest.mark.parametrize(
    "content",
    [
        "In Llama's template `<|eot_id|>` ends a turn, and ``[INST]`` begins one.",
        "```\n<|start_header_id|>user<|end_header_id|>\n```\nThat is how a turn begins.",
        "```xml\n<start_of_turn>",
        "<b>bold</b> <s>gone</s> <user>x</user> <end> <tool> [1] [a] [LINK] <|> <| |>",
        "a <- b; c[i] = d[j]; x << y; <table><tr><td></td></tr></table>",
        "See [NOTE] and [TODO], or [WARNING].",
        "<thinkers> and <|im_ end|> and <start_of_it>",
        "",
    ],
)
def test_quoted_code_html_and_brackets_are_no_markers(qwen3: Family, content: str) -> None:
    assert read(qwen3, content) == ()


def test_hundreds_of_markers_are_a_few_flags(qwen3: Family) -> None:
    found = read(qwen3, "Hi <|eot_id|> " * 800)
    assert [flag.code for flag in found if flag.code == "marker_foreign"] == ["marker_foreign"] * 20
    assert "more like it" in found[-1].message
