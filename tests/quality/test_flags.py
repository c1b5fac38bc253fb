"""Each flag where it is due, with the range it cites; field reports by kind."""

import pytest

from inference.quality.flags import FLAG_CODES
from inference.tokens.segmentation.segments import KINDS
from tests.support.families import CLOSED, OPENED, SILENT, Family

END = "<|im_end|>"
TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
]
LOOP = " again and" * 60


def cited(family: Family, code: str, output: str, think: str = SILENT, finish: str = "stop", **more: object) -> str:
    """The text that the first flag of this code cites."""
    ids = family.ids(output)
    found = next(flag for flag in family.inspect(output, think, finish, **more).flags if flag.code == code)
    return family.tokenizer.decode(ids[found.start : found.end])


@pytest.mark.parametrize(
    ("output", "think", "finish", "codes"),
    [
        # nothing wrong
        (f"plan</think>Answer{END}", OPENED, "stop", []),
        (f"<think>plan</think>\n\nAnswer{END}", SILENT, "stop", []),
        (f"Hi{END}", CLOSED, "stop", []),
        (f'<think>p</think><tool_call>{{"name":"f","arguments":{{"x":1}}}}</tool_call>{END}', SILENT, "stop", []),
        # reasoning
        (f"Hi{END}", SILENT, "stop", ["reasoning_missing"]),
        (f"<think>\n\n</think>\n\nHi{END}", SILENT, "stop", ["reasoning_empty"]),
        (f"</think>Hi{END}", OPENED, "stop", ["reasoning_empty"]),
        (f"<think>\n</think>Hi{END}", OPENED, "stop", ["reasoning_empty", "nested_open"]),
        (f"<think>p</think>Hi{END}", CLOSED, "stop", ["reasoning_unexpected"]),
        ("<think>step 1 step 2", SILENT, "length", ["truncated", "reasoning_unclosed"]),
        ("step 1 step 2", OPENED, "length", ["truncated", "reasoning_unclosed"]),
        ("", OPENED, "length", ["truncated", "output_empty"]),
        (f"<think>The answer is 4.{END}", SILENT, "stop", ["reasoning_unclosed", "content_empty"]),
        (f"p</think>Hi{END}", SILENT, "stop", ["close_without_open"]),
        (f"p</think>a</think>Hi{END}", OPENED, "stop", ["extra_close"]),
        (f"<think>a<think>b</think>c</think>d{END}", SILENT, "stop", ["nested_open", "extra_close"]),
        (f"<think>a</think>x<think>b</think>y{END}", SILENT, "stop", ["multiple_reasoning"]),
        (f"<think>a</think>x<think> </think>y{END}", SILENT, "stop", ["multiple_reasoning", "reasoning_empty"]),
        # content and end
        (f"<think>p</think>\n\n{END}", SILENT, "stop", ["content_empty"]),
        ("<think>p</think>", SILENT, "length", ["truncated"]),
        ("", OPENED, "stop", ["output_empty", "finish_mismatch"]),
        (END, OPENED, "stop", ["output_empty"]),
        (END, SILENT, "stop", ["output_empty"]),
        ("<think>p</think>Hi", SILENT, "stop", ["finish_mismatch"]),
        (f"<think>p</think>Hi{END}", SILENT, "length", ["truncated", "finish_mismatch"]),
        (f"Hi{END}\n", CLOSED, "stop", ["finish_mismatch", "after_stop"]),
        (f"Hi{END}<|endoftext|><|endoftext|>", CLOSED, "length", ["truncated", "after_stop"]),
        # markers
        (f"done<|im_start|>user\nmore{END}", CLOSED, "stop", ["role_marker_in_output", "control_in_content"]),
        (
            f"done{END}\n<|im_start|>user\nmore",
            CLOSED,
            "stop",
            ["after_stop", "role_marker_in_output", "finish_mismatch"],
        ),
        (f"a</tool_call>b{END}", CLOSED, "stop", ["control_in_content"]),
        (f"a<tool_response>b{END}", CLOSED, "stop", ["control_in_content"]),
        # calls
        (
            f"<think>look<tool_call>{{}}</tool_call>{END}",
            SILENT,
            "stop",
            ["tool_call_in_reasoning", "tool_name_unreadable"],
        ),
        (f"<think>look<tool_call>x</tool_call></think>Hi{END}", SILENT, "stop", ["tool_call_in_reasoning"]),
        ('<tool_call>{"name":"f","argu', CLOSED, "length", ["truncated", "tool_call_unclosed", "tool_json_invalid"]),
        (f'<tool_call>{{"name":"f","arguments":{{}}}}{END}', CLOSED, "stop", ["tool_call_unclosed"]),
        (f"<tool_call></tool_call>{END}", CLOSED, "stop", ["tool_json_invalid"]),
        (f'<tool_call>{{"name":"g","arguments":{{}}}}</tool_call>{END}', CLOSED, "stop", ["tool_unknown"]),
        (
            f'<tool_call>{{"name":"f","arguments":{{"y":1}}}}</tool_call>{END}',
            CLOSED,
            "stop",
            ["tool_argument_unknown"],
        ),
        (f'<tool_call>{{"name":"f","arguments":{{"x":"1"}}}}</tool_call>{END}', CLOSED, "stop", ["tool_argument_type"]),
        # loops
        (LOOP, CLOSED, "length", ["truncated", "repetition_loop"]),
        (f"<think>{LOOP}</think>Hi{END}", SILENT, "stop", ["repetition_loop"]),
    ],
)
def test_flags_and_their_order(qwen3: Family, output: str, think: str, finish: str, codes: list[str]) -> None:
    found = [code for code in qwen3.codes(output, think, finish, tools=TOOLS) if code != "tool_argument_missing"]
    assert found == codes


@pytest.mark.parametrize(
    ("code", "output", "think", "text"),
    [
        ("reasoning_missing", f"Hi you{END}", SILENT, "Hi you"),
        ("reasoning_empty", f"<think>\n\n</think>Hi{END}", SILENT, "\n\n"),
        ("reasoning_empty", f"</think>Hi{END}", OPENED, "</think>"),
        ("reasoning_unclosed", f"<think>abc{END}", SILENT, "<think>abc"),
        ("reasoning_unexpected", f"<think>p</think>Hi{END}", CLOSED, "<think>p</think>"),
        ("close_without_open", f"p</think>Hi{END}", SILENT, "</think>"),
        ("extra_close", f"p</think>a</think>Hi{END}", OPENED, "</think>"),
        ("nested_open", f"a<think>b</think>c{END}", OPENED, "<think>"),
        ("multiple_reasoning", f"a</think>x<think>b</think>y{END}", OPENED, "<think>b</think>"),
        ("after_stop", f"Hi{END}\nmore", CLOSED, "\nmore"),
        ("role_marker_in_output", f"a<|im_start|>b{END}", CLOSED, "<|im_start|>"),
        ("content_empty", f"<think>p</think>\n{END}", SILENT, "<think>p</think>\n"),
        ("tool_call_unclosed", f"<tool_call>abc{END}", CLOSED, "abc"),
        ("tool_json_invalid", f'<tool_call>{{"name":"f", 17}}</tool_call>{END}', CLOSED, " 1"),
        ("tool_json_invalid", f"<tool_call></tool_call>{END}", CLOSED, "<tool_call></tool_call>"),
        (
            "tool_unknown",
            f'<tool_call>{{"name":"g","arguments":{{}}}}</tool_call>{END}',
            CLOSED,
            '{"name":"g","arguments":{}}',
        ),
    ],
)
def test_a_flag_cites_what_it_is_about(qwen3: Family, code: str, output: str, think: str, text: str) -> None:
    assert cited(qwen3, code, output, think, tools=TOOLS) == text


def test_a_role_marker_behind_the_stop_does_not_cost_the_answer_its_export(qwen3: Family) -> None:
    flags = qwen3.inspect(f"done{END}\n<|im_start|>user\nmore", CLOSED, "length").flags
    assert ("role_marker_in_output", "warning") in [(item.code, item.severity) for item in flags]


def test_a_loop_is_cited_from_its_start_with_period_and_share(qwen3: Family) -> None:
    unit = qwen3.ids("again and ")
    output = [*qwen3.ids("The quick brown fox "), *(unit * 60)]
    found = next(flag for flag in qwen3.inspect(output, CLOSED, "length").flags if flag.code == "repetition_loop")
    assert found.end == len(output)
    assert found.start is not None
    assert found.start <= len(output) - len(unit) * 59
    assert f"repeat {len(unit)} tokens" in found.message
    assert "% of the answer" in found.message


def test_text_that_ends_inside_a_character_is_flagged_at_its_last_id(qwen3: Family) -> None:
    crab = qwen3.ids("🦀")
    output = [*qwen3.ids("<think>p</think>Hi "), *crab[:2]]
    found = qwen3.inspect(output, SILENT, "length").flags
    assert [flag.code for flag in found] == ["truncated", "ends_inside_character"]
    assert (found[1].start, found[1].end) == (len(output) - 1, len(output))
    assert "ends_inside_character" not in qwen3.codes([*output[:-2], *crab], SILENT, "length")
    split = [*qwen3.ids("<think>p"), *crab[:3], *qwen3.ids("</think>"), *crab[3:], *qwen3.ids(END)]
    assert qwen3.codes(split) == ["ends_inside_character"]


def test_a_stop_string_is_no_mismatch_and_a_stop_id_of_the_request_is_control(qwen3: Family) -> None:
    assert qwen3.codes("<think>p</think>Hi", matched="is four") == []
    ids = qwen3.ids("<think>p</think>Hi there.")
    found = qwen3.inspect(ids, matched=ids[-1])
    assert found.flags == ()
    assert found.segmentation.segments[-1].kind == "control"
    assert "finish_mismatch" in qwen3.codes(ids, matched=ids[-1] + 1)


def test_every_flag_of_a_kind_is_not_worth_a_row_of_its_own(qwen3: Family) -> None:
    found = qwen3.inspect("p</think>" + "a</think>" * 500, OPENED, "length").flags
    extra = [flag for flag in found if flag.code == "extra_close"]
    assert len(extra) == 20
    assert "480 more" in extra[-1].message


def test_without_a_prompt_nothing_is_said_about_reasoning_that_nobody_asked_for(qwen3: Family) -> None:
    from inference.quality.inspection import inspect

    for output in ("<think>p</think>Hi<|im_end|>", "Hi<|im_end|>"):
        assert inspect(qwen3.bound, qwen3.tokenizer, None, qwen3.ids(output), "", None).flags == ()


def test_kimi_calls_in_open_reasoning_are_one_call_once(kimi: Family) -> None:
    output = (
        "look up<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        '{"x":1}<|tool_call_end|><|tool_calls_section_end|><|im_end|>'
    )
    found = kimi.inspect(output, OPENED, tools=TOOLS)
    assert [flag.code for flag in found.flags] == ["tool_call_in_reasoning"]
    assert sum(part.kind == "tool_call" for part in found.segmentation.segments) == 1


def test_deepseek_in_the_neighbours_dialect_is_read_and_told(deepseek: Family) -> None:
    output = (
        "p</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        "<｜end▁of▁sentence｜>"
    )
    assert deepseek.codes(output, OPENED) == ["tool_dialect"]
    nothing = "p</think><｜tool▁calls▁begin｜>prose<｜end▁of▁sentence｜>"
    found = deepseek.inspect(nothing, OPENED)
    assert "malformed" in {part.kind for part in found.segmentation.segments}
    assert "tool_section_unbalanced" in {flag.code for flag in found.flags}


@pytest.mark.parametrize(
    ("parts", "spelled"),
    [
        (["<", "think", ">"], "<think>"),
        (["</", "th", "ink", ">"], "</think>"),
        ([" <|im", "_end|", ">\n"], "<|im_end|>"),
        (["<", "tool_call", ">", "x"], "<tool_call>"),
    ],
)
def test_a_delimiter_spelled_with_ordinary_ids_is_cited(qwen3: Family, parts: list[str], spelled: str) -> None:
    before, after = qwen3.ids("<think>p</think>\n\nHi a < b"), qwen3.ids(f" there{END}")
    middle = [number for part in parts for number in qwen3.ids(part)]
    (found,) = qwen3.inspect([*before, *middle, *after]).flags
    assert (found.code, found.severity) == ("delimiter_spelled", "warning")
    assert found.start is not None
    assert found.end is not None
    assert qwen3.tokenizer.decode([*before, *middle, *after][found.start : found.end]) == spelled


def test_a_delimiter_spelled_in_reasoning_is_a_note_and_ends_nothing(qwen3: Family) -> None:
    middle = [number for part in ("</", "think", ">") for number in qwen3.ids(part)]
    output = [*qwen3.ids("a"), *middle, *qwen3.ids(f"b</think>c{END}")]
    found = qwen3.inspect(output, OPENED)
    assert [(item.code, item.severity, item.start, item.end) for item in found.flags] == [
        ("delimiter_spelled", "info", 1, 1 + len(middle))
    ]
    assert [part.kind for part in found.segmentation.segments] == ["reasoning", "control", "content", "control"]


def test_another_models_spelling_of_a_think_tag_is_content_and_a_note(
    qwen3: Family, families: dict[str, Family]
) -> None:
    found = qwen3.inspect(f"<thinking>x</thinking>y{END}", CLOSED)
    assert [(item.code, item.severity) for item in found.flags] == [("delimiter_spelled", "info")] * 2
    assert [part.kind for part in found.segmentation.segments] == ["content", "control"]
    assert families["none"].codes(f"<thinking>x</thinking>y{END}") == []


def test_what_only_resembles_a_delimiter_is_no_flag(qwen3: Family) -> None:
    html = "<table><td>" * 40 + "<thinkings> </thinkers> <think <|im_ | end|>"
    assert qwen3.codes(f"<think>p</think>{html}{END}") == []
    split = [*qwen3.ids("<think>p</think>a<"), *qwen3.ids("</think>"), *qwen3.ids(f"think>{END}")]
    assert qwen3.codes(split) == ["extra_close"]  # the real one between them is not read as letters


def test_preview_is_the_content_then_calls_then_reasoning(qwen3: Family) -> None:
    assert qwen3.inspect(f"<think>p</think>\n\nHi\n there{END}").preview == "Hi there"
    assert qwen3.inspect(f"<think>p</think><tool_call>{{}}</tool_call>{END}").preview == "{}"
    assert qwen3.inspect(f"<think>only this{END}").preview == "only this"
    assert len(qwen3.inspect("word " * 500, CLOSED).preview) <= 200


def test_kinds_are_bits_in_the_databases_order() -> None:
    from db.kinds import SEGMENT_KINDS, kind_bit

    assert tuple(SEGMENT_KINDS) == KINDS
    assert [kind_bit(kind) for kind in KINDS] == [1, 2, 4, 8, 16]


def test_every_code_has_a_severity_and_one_sentence() -> None:
    for code, declared in FLAG_CODES.items():
        assert declared.code == code
        assert declared.severity in {"info", "warning", "error"}
        assert declared.meaning[0].isupper()
        assert declared.meaning.endswith(".")
        assert declared.meaning.count(". ") == 0
