"""The seven rules of segmentation, one table a rule; every case also tiles."""

import pytest

from tests.support.families import CLOSED, OPENED, SILENT, Family

END = "<|im_end|>"


def notes(family: Family, output: str, think: str = SILENT) -> list[str]:
    return [note.code for note in family.segment(output, think).notes]


@pytest.mark.parametrize(
    ("output", "tiles"),
    [
        (f"<think>a</think>b{END}", ["control", "reasoning", "control", "content", "control"]),
        (
            f"<think>a</think>\n\n<tool_call>{{}}</tool_call>\n{END}",
            ["control", "reasoning", "control", "control", "control", "tool_call", "control", "control", "control"],
        ),
        (f"<think>a</think>\n{END}", ["control", "reasoning", "control", "control", "control"]),
        ("<think>a</think>\n\n", ["control", "reasoning", "control", "content"]),  # not between two: nothing follows
        (f" \n{END}", ["content", "control"]),
    ],
)
def test_rule_1_delimiters_and_the_whitespace_between_them_are_control(
    qwen3: Family, output: str, tiles: list[str]
) -> None:
    assert [kind for kind, _ in qwen3.tiles(output)] == tiles


@pytest.mark.parametrize(
    ("think", "output", "tiles"),
    [
        (OPENED, "plan</think>Hi", [("reasoning", "plan"), ("control", "</think>"), ("content", "Hi")]),
        (CLOSED, "Hi", [("content", "Hi")]),
        (SILENT, "Hi", [("content", "Hi")]),
        (
            SILENT,
            "<think>p</think>Hi",
            [("control", "<think>"), ("reasoning", "p"), ("control", "</think>"), ("content", "Hi")],
        ),
    ],
)
def test_rule_2_the_prompt_decides_how_the_output_begins(
    qwen3: Family, think: str, output: str, tiles: list[tuple[str, str]]
) -> None:
    assert qwen3.tiles(output, think) == tiles


def test_rule_2_only_the_last_turn_of_the_prompt_counts(qwen3: Family) -> None:
    earlier = "<|im_start|>assistant\n<think>never closed<|im_end|>\n"
    assert qwen3.bound.segment(qwen3.ids(earlier + qwen3.prompt), [5]).prompt_state == "none"


def test_rule_2_a_long_last_turn_is_read_to_its_start(qwen3: Family) -> None:
    long = "word " * 3000
    assert qwen3.bound.segment(qwen3.ids(qwen3.prompt + "<think>" + long), [5]).prompt_state == "open"
    assert qwen3.bound.segment(qwen3.ids("<think>" + qwen3.prompt + long), [5]).prompt_state == "none"


@pytest.mark.parametrize(
    ("think", "output", "tiles", "codes"),
    [
        (
            SILENT,
            "plan</think>Hi",
            [("reasoning", "plan"), ("control", "</think>"), ("content", "Hi")],
            ["close_without_open"],
        ),
        (SILENT, "</think>Hi", [("control", "</think>"), ("content", "Hi")], ["close_without_open"]),
        (
            SILENT,
            "a<tool_call>{}</tool_call>b</think>c",
            [("reasoning", "a<tool_call>{}</tool_call>b"), ("control", "</think>"), ("content", "c")],
            ["tool_call_in_reasoning", "close_without_open"],
        ),
        (
            OPENED,
            "a</think>b</think>c",
            [("reasoning", "a"), ("control", "</think>"), ("content", "b</think>c")],
            ["extra_close"],
        ),
        (CLOSED, "b</think>c", [("content", "b</think>c")], ["extra_close"]),
        (
            SILENT,
            "a</think>b</think>c</think>",
            [("reasoning", "a"), ("control", "</think>"), ("content", "b</think>c</think>")],
            ["close_without_open", "extra_close", "extra_close"],
        ),
    ],
)
def test_rule_3_closes(qwen3: Family, think: str, output: str, tiles: list[tuple[str, str]], codes: list[str]) -> None:
    assert qwen3.tiles(output, think) == tiles
    assert notes(qwen3, output, think) == codes


@pytest.mark.parametrize(
    ("think", "output", "tiles", "codes"),
    [
        (
            SILENT,
            "<think>a</think>x<think>b</think>y",
            [("reasoning", "a"), ("content", "x"), ("reasoning", "b"), ("content", "y")],
            ["multiple_reasoning"],
        ),
        (
            SILENT,
            "<think>a<think>b</think>c</think>d",
            [("reasoning", "a<think>b"), ("content", "c</think>d")],
            ["nested_open", "extra_close"],
        ),
        (OPENED, "<think>a</think>b", [("reasoning", "<think>a"), ("content", "b")], ["nested_open"]),
        (SILENT, "<think>\n\n</think>b", [("reasoning", "\n\n"), ("content", "b")], []),
        (SILENT, "<think>step 1", [("reasoning", "step 1")], ["reasoning_unclosed"]),
        (OPENED, f"step 1{END}", [("reasoning", "step 1")], ["reasoning_unclosed"]),
    ],
)
def test_rule_4_opens(qwen3: Family, think: str, output: str, tiles: list[tuple[str, str]], codes: list[str]) -> None:
    assert [tile for tile in qwen3.tiles(output, think) if tile[0] != "control"] == tiles
    assert notes(qwen3, output, think) == codes


def test_rule_5_a_call_inside_reasoning_that_closes_later_is_text_of_it(qwen3: Family) -> None:
    output = "<think>a<tool_call>{}</tool_call>b</think>c"
    assert [tile for tile in qwen3.tiles(output) if tile[0] != "control"] == [
        ("reasoning", "a<tool_call>{}</tool_call>b"),
        ("content", "c"),
    ]
    assert notes(qwen3, output) == ["tool_call_in_reasoning"]


def test_rule_5_a_call_inside_reasoning_that_never_closes_ends_it(kimi: Family) -> None:
    output = (
        "look up<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>"
        '{"tz":"UTC"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>'
    )
    assert [tile for tile in kimi.tiles(output, OPENED) if tile[0] != "control"] == [
        ("reasoning", "look up"),
        ("tool_call", 'functions.get_time:0<|tool_call_argument_begin|>{"tz":"UTC"}'),
    ]
    assert notes(kimi, output, OPENED) == ["tool_call_in_reasoning"]


def test_rule_6_header_and_arguments_are_one_segment_a_call(kimi: Family) -> None:
    call = "<|tool_call_begin|>functions.f:{}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    output = "a<|tool_calls_section_begin|>" + call.format(0) + "\n" + call.format(1) + "<|tool_calls_section_end|>b"
    assert kimi.tiles(output, CLOSED) == [
        ("content", "a"),
        ("control", "<|tool_calls_section_begin|>"),
        ("control", "<|tool_call_begin|>"),
        ("tool_call", "functions.f:0<|tool_call_argument_begin|>{}"),
        ("control", "<|tool_call_end|>"),
        ("control", "\n"),
        ("control", "<|tool_call_begin|>"),
        ("tool_call", "functions.f:1<|tool_call_argument_begin|>{}"),
        ("control", "<|tool_call_end|>"),
        ("control", "<|tool_calls_section_end|>"),
        ("content", "b"),
    ]


@pytest.mark.parametrize(
    ("output", "calls", "codes"),
    [
        ("<tool_call>{}", ["{}"], ["tool_call_unclosed"]),
        ("<tool_call>{}<tool_call>[]</tool_call>", ["{}", "[]"], ["tool_call_unclosed"]),
        ("<tool_call>{}<|im_end|>", ["{}"], ["tool_call_unclosed"]),
        ("<tool_call>", [], ["tool_call_unclosed"]),
        ("<tool_call></tool_call>x", [], []),
        ("<tool_call> \n </tool_call>x", [" \n "], []),
        ("<tool_call>{<think>}</tool_call>", ["{<think>}"], []),
        ("x</tool_call>y", [], []),
    ],
)
def test_rule_6_calls_without_their_other_marker(
    qwen3: Family, output: str, calls: list[str], codes: list[str]
) -> None:
    assert [text for kind, text in qwen3.tiles(output) if kind == "tool_call"] == calls
    assert notes(qwen3, output) == codes


@pytest.mark.parametrize(
    ("output", "tiles", "codes"),
    [
        (  # no section around the call
            "<|tool_call_begin|>a:0<|tool_call_end|>b",
            [("tool_call", "a:0"), ("content", "b")],
            ["tool_section_unbalanced"],
        ),
        ("a<|tool_calls_section_end|>b", [("content", "a<|tool_calls_section_end|>b")], ["tool_section_unbalanced"]),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>a:0<|tool_call_end|>",
            [("tool_call", "a:0")],
            ["tool_section_unbalanced"],
        ),
        (
            "<|tool_calls_section_begin|>prose<|tool_calls_section_end|>b",
            [("malformed", "prose"), ("content", "b")],
            ["tool_section_unbalanced"],
        ),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>a:0<|tool_calls_section_end|>b",
            [("tool_call", "a:0"), ("content", "b")],
            ["tool_call_unclosed"],
        ),
    ],
)
def test_rule_6_sections_without_balance_keep_every_id(
    kimi: Family, output: str, tiles: list[tuple[str, str]], codes: list[str]
) -> None:
    assert [tile for tile in kimi.tiles(output, CLOSED) if tile[0] != "control"] == tiles
    assert notes(kimi, output, CLOSED) == codes


def test_rule_7_ids_after_the_stop_are_malformed(qwen3: Family) -> None:
    output = "done<|im_end|>\n<|im_start|>user\n<think>x"
    assert qwen3.tiles(output, CLOSED) == [
        ("content", "done"),
        ("control", "<|im_end|>"),
        ("malformed", "\n<|im_start|>user\n<think>x"),
    ]
    assert notes(qwen3, output, CLOSED) == ["after_stop"]


def test_a_close_after_the_stop_closes_nothing(qwen3: Family) -> None:
    assert notes(qwen3, "<think>a<|im_end|>b</think>c") == ["reasoning_unclosed", "after_stop"]


def test_a_delimiter_spelled_with_ordinary_tokens_is_text(qwen3: Family) -> None:
    spelled = [number for part in ("</", "think", ">") for number in qwen3.ids(part)]
    assert qwen3.tokenizer.decode(spelled) == "</think>"
    ids = [*qwen3.ids("<think>a"), *spelled, *qwen3.ids("b</think>c")]
    found = qwen3.bound.segment(qwen3.prompt_ids(), ids)
    assert [(part.kind, qwen3.tokenizer.decode(ids[part.start : part.end])) for part in found.segments][1] == (
        "reasoning",
        "a</think>b",
    )


def test_a_stop_id_that_is_a_delimiter_too_acts_as_the_delimiter(qwen3: Family) -> None:
    close = qwen3.tokenizer.id_of("</think>")
    assert close is not None
    found = qwen3.bound.segment(qwen3.prompt_ids(), qwen3.ids("<think>a</think>"), frozenset({close}))
    assert [part.kind for part in found.segments] == ["control", "reasoning", "control"]
    assert found.notes == ()


def test_every_unicode_space_counts_as_whitespace_though_no_token_is_it(qwen3: Family) -> None:
    ids = qwen3.ids("\u3000")
    assert len(ids) > 1  # only the bytes together are a space
    found = qwen3.bound.segment(qwen3.prompt_ids(), [*qwen3.ids("<think>a</think>"), *ids, *qwen3.ids("<|im_end|>")])
    assert [part.kind for part in found.segments] == ["control", "reasoning", "control", "control", "control"]
    half = qwen3.bound.segment(
        qwen3.prompt_ids(), [*qwen3.ids("<think>a</think>"), *ids[:-1], *qwen3.ids("<|im_end|>")]
    )
    assert [part.kind for part in half.segments] == ["control", "reasoning", "control", "content", "control"]


def test_without_a_format_everything_is_content(families: dict[str, Family]) -> None:
    plain = families["none"]
    assert plain.tiles("<think>a</think><tool_call>{}</tool_call><|im_end|>") == [
        ("content", "<think>a</think><tool_call>{}</tool_call>"),
        ("control", "<|im_end|>"),
    ]
