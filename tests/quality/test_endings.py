"""What the server said of the end against the last id; what the token limit explains is told first, and milder."""

import pytest

from tests.support.families import CLOSED, OPENED, SILENT, Family

END = "<|im_end|>"


@pytest.mark.parametrize(
    ("output", "finish", "matched", "mismatch"),
    [
        (f"Hi{END}", "stop", 151645, False),
        (f"Hi{END}", "stop", 151643, True),
        (f"Hi{END}", "stop", None, False),
        (f"Hi{END}", "stop", [151643, 151645], False),  # a list of end ids, one of which it was
        ("Hi<|endoftext|>", "stop", 151643, False),
        ("Hi<|endoftext|>", "stop", [151645], True),
        ("Hi", "stop", [], True),
        ("Hi", "stop", None, True),
        ("Hi", "stop", "Hi", False),  # a stop text
        ("Hi", "stop", r"\bHi\b", False),  # a pattern of one
        ("", "stop", "", False),
        (f"Hi{END}", "stop", "NaN happened", True),
        (f"Hi{END}", "length", None, True),
        ("Hi", "length", None, False),
        ("Hi", "abort", None, False),
        ("Hi", "", None, False),
        (f"Hi{END}", "", 5, False),
        (f"Hi{END}", "stop", True, False),
    ],
)
def test_the_last_id_is_held_against_what_the_server_said(
    qwen3: Family, output: str, finish: str, matched: object, mismatch: bool
) -> None:
    found = [flag for flag in qwen3.inspect(output, CLOSED, finish, matched).flags if flag.code == "finish_mismatch"]
    assert bool(found) is mismatch
    for flag in found:
        assert flag.end == len(qwen3.ids(output))
        assert flag.message.startswith("The server says ")


def test_several_ids_in_a_row_are_a_stop_too(qwen3: Family) -> None:
    ids = qwen3.ids("Hi there, all")
    assert "finish_mismatch" not in qwen3.codes(ids, CLOSED, matched=ids[-2:])
    assert "finish_mismatch" in qwen3.codes(ids, CLOSED, matched=[ids[-1] + 1, ids[-2]])


def test_a_corrupt_end_says_so(qwen3: Family) -> None:
    (found,) = qwen3.inspect(f"Hi{END}", CLOSED, matched="NaN happened").flags
    assert "“NaN happened”" in found.message


def test_a_call_that_the_limit_cut_is_truncated_first_and_broken_second(qwen3: Family, kimi: Family) -> None:
    assert qwen3.codes('<tool_call>{"name":"f","argu', CLOSED, "length")[0] == "truncated"
    cut = '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"x":'
    found = kimi.codes(cut, CLOSED, "length")
    assert found[0] == "truncated"
    assert {"tool_call_unclosed", "tool_json_invalid"} <= set(found)


def test_everything_thought_and_nothing_said(qwen3: Family) -> None:
    assert qwen3.codes(f"<think>The answer is 4.{END}") == ["reasoning_unclosed", "content_empty"]
    found = qwen3.inspect("step " * 8_000 + END, OPENED).flags
    assert "reasoning_unclosed" in {flag.code for flag in found if flag.severity == "error"}


@pytest.mark.parametrize("blank", ["", " ", "\n\n", "\t \n", "\u3000", "\xa0\n"])
def test_whitespace_is_no_reasoning_where_it_is_due_and_no_fault_where_not(qwen3: Family, blank: str) -> None:
    assert qwen3.codes(f"<think>{blank}</think>Hi{END}") == ["reasoning_empty"]
    assert qwen3.codes(f"{blank}</think>Hi{END}", OPENED) == ["reasoning_empty"]
    assert qwen3.codes(f"<think>{blank}</think>Hi{END}", CLOSED) == []


def test_where_nobody_can_tell_whether_it_was_due_an_empty_block_is_a_note(qwen3: Family) -> None:
    from inference.quality.inspection import inspect

    ids = qwen3.ids(f"<think>\n\n</think>\n\nHi{END}")
    (found,) = inspect(qwen3.bound, qwen3.tokenizer, None, ids, "", None).flags
    assert (found.code, found.severity) == ("reasoning_empty", "info")


def test_a_delimiter_inside_a_character_is_told_with_both_sides(qwen3: Family) -> None:
    crab = qwen3.ids("🦀")
    close = qwen3.ids("</think>")
    ids = [*qwen3.ids("<think>p"), *crab[:3], *close, *crab[3:], *qwen3.ids(f" yes{END}")]
    (found,) = qwen3.inspect(ids, SILENT).flags
    at = len(qwen3.ids("<think>p")) + 3
    assert (found.code, found.start, found.end) == ("ends_inside_character", at - 1, at + 2)
    assert "</think> stands in the middle of a character" in found.message
    texts = [
        qwen3.tokenizer.decode(ids[part.start : part.end]) for part in qwen3.inspect(ids, SILENT).segmentation.segments
    ]
    assert texts[1].endswith("\ufffd")
    assert texts[3].startswith("\ufffd")


def test_whole_characters_at_a_border_are_fine(qwen3: Family) -> None:
    for text in ("🦀", "é", "漢", "👩‍💻", "𝒳"):
        assert qwen3.codes(f"<think>{text}</think>{text}{END}") == []
        half = qwen3.ids(text)[:-1]
        if half:
            assert "ends_inside_character" in qwen3.codes([*qwen3.ids("<think>p</think>"), *half], SILENT, "length")
