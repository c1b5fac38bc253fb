"""Every declared code has an example that raises it; every check raises its declared codes alone, on any ids, and can be switched off."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.answer import Answer
from inference.quality.checks.registry import CHECKS, ID_CHECKS, TEXT_CHECKS
from inference.quality.checks.structure import NOTED, check_structure
from inference.quality.collection import duplicate_flag, length_flag
from inference.quality.flags import FLAG_CODES, OFF_BY_DEFAULT, in_order
from inference.quality.inspection import inspect, inspect_text
from inference.quality.reading import Reading
from inference.tokens.segmentation.segments import Note, Segment, Segmentation
from tests.support.families import CLOSED, NAMES, OPENED, SILENT, Family

END = "<|im_end|>"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {"x": {"type": "integer"}},
                "required": ["x"],
                "additionalProperties": False,
            },
        },
    }
]


class Example(NamedTuple):
    """An answer that shows a fault."""

    output: str | Callable[[Family], list[int]]
    think: str = CLOSED
    finish: str = "stop"
    family: str = "qwen3"
    prompt: str = ""


def spelled(family: Family, text: str) -> list[int]:
    """The text with one id a character: not as the tokenizer would write it."""
    return [number for character in text for number in family.ids(character)]


def call(payload: str) -> str:
    return f"<tool_call>{payload}</tool_call>{END}"


EXAMPLES = {
    "truncated": Example("Hi", finish="length"),
    "output_empty": Example(END),
    "finish_mismatch": Example("Hi"),
    "after_stop": Example(f"Hi{END}more"),
    "repetition_loop": Example("Hi" + " again" * 400, finish="length"),
    "reasoning_missing": Example(f"Hi{END}", SILENT),
    "reasoning_empty": Example(f"<think> </think>Hi{END}", SILENT),
    "reasoning_unclosed": Example(f"<think>a{END}", SILENT),
    "reasoning_unexpected": Example(f"<think>a</think>Hi{END}"),
    "close_without_open": Example(f"a</think>Hi{END}", SILENT),
    "extra_close": Example(f"a</think>Hi{END}"),
    "nested_open": Example(f"a<think>b</think>c{END}", OPENED),
    "multiple_reasoning": Example(f"a</think>b<think>c</think>d{END}", OPENED),
    "content_empty": Example(f"<think>a</think>{END}", SILENT),
    "role_marker_in_output": Example(f"a<|im_start|>b{END}"),
    "control_in_content": Example(f"a</tool_call>b{END}"),
    "tool_call_in_reasoning": Example(f"a<tool_call>b{END}", OPENED),
    "tool_call_unclosed": Example(f"<tool_call>a{END}"),
    "tool_section_unbalanced": Example("<|tool_call_begin|>functions.f:0<|im_end|>", family="kimi_k2"),
    "tool_json_invalid": Example(call('{"name": "f", "arguments": {"x": }}')),
    "tool_arguments_invalid": Example(call('{"name": "f", "arguments": 3}')),
    "tool_name_unreadable": Example(call('{"arguments": {}}')),
    "tool_unknown": Example(call('{"name": "g", "arguments": {}}')),
    "tool_argument_unknown": Example(call('{"name": "f", "arguments": {"x": 1, "y": 1}}')),
    "tool_argument_missing": Example(call('{"name": "f", "arguments": {}}')),
    "tool_argument_type": Example(call('{"name": "f", "arguments": {"x": "one"}}')),
    "near_repetition": Example("\n".join(f"Step {n}: check again." for n in range(90)) + END),
    "marker_foreign": Example(f"Hi <|eot_id|> there{END}"),
    "language_mismatch": Example(
        "Фотосинтез превращает свет в сахар и кислород. " * 5 + END, prompt="What is it that plants do with light?"
    ),
    "retokenization_drift": Example(lambda family: spelled(family, "The quick brown fox")),
    "id_without_token": Example(lambda family: [*family.ids("Hi"), family.tokenizer.vocabulary.size + 7]),
    "ends_inside_character": Example(lambda family: [*family.ids("Hi "), *family.ids("🦀")[:2]]),
    "delimiter_spelled": Example(
        lambda family: [*family.ids("Hi "), *spelled(family, "</think>"), *family.ids(f" there{END}")]
    ),
    "tool_dialect": Example(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        family="deepseek_r1",
    ),
}
"""An answer for each code that an answer alone can have"""
NOTES_ALONE = {"header_malformed", "final_missing", "tool_call_bare", "delimiter_shared"}
"""Codes that the segmentation of particular families notes; their tests are with it, and their sentences here"""


def ids_of(family: Family, code: str) -> list[int]:
    output = EXAMPLES[code].output
    return family.ids(output) if isinstance(output, str) else output(family)


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_code_is_raised_by_its_example_and_not_where_it_is_switched_off(
    families: dict[str, Family], code: str
) -> None:
    example = EXAMPLES[code]
    family = families[example.family]
    ids, prompt = np.array(ids_of(family, code), dtype=np.uint32), family.prompt_ids(example.think)
    last = int(ids[-1])
    matched = last if example.finish == "stop" and last in family.bound.stop_ids else None

    def found(off: frozenset[str]) -> set[str]:
        seen = inspect(family.bound, family.tokenizer, prompt, ids, example.finish, matched, tools=TOOLS, off=off)
        text = inspect_text(
            family.bound,
            family.tokenizer,
            example.prompt,
            ids,
            seen.segmentation,
            finish_reason=example.finish,
            off=off,
        )
        return {flag.code for flag in (*seen.flags, *text)}

    every = found(frozenset())
    assert code in every
    assert found(frozenset({code})) == every - {code}
    assert found(frozenset(FLAG_CODES)) == set()


def test_every_code_of_an_answer_has_an_example_and_a_check() -> None:
    raised = [code for check in CHECKS for code in check.codes]
    assert len(raised) == len(set(raised)) + len(SHARED)
    declared = {item.code: item.needs for item in FLAG_CODES.values() if item.needs in {"ids", "text", "demand"}}
    assert set(raised) == {code for code in declared if code != "text_unread"}
    for check in CHECKS:
        assert {declared[code] for code in check.codes} == {check.needs}
    exampled = set(EXAMPLES) | NOTES_ALONE
    assert set(raised) <= exampled


SHARED = {"role_marker_in_output"}
"""Raised by two checks: by the marker's id, and by a message of another role"""


def test_codes_that_compare_answers_have_their_makers() -> None:
    outlier = length_flag(900, (10, 100))
    assert outlier is not None
    assert {item.code for item in FLAG_CODES.values() if item.needs == "run"} == {
        outlier.code,
        duplicate_flag(20, 1).code,
    }
    assert frozenset({"retokenization_drift"}) == OFF_BY_DEFAULT


def noted(family: Family, note: Note, *, finish: str = "stop", n: int = 9) -> list[tuple[str, str, str]]:
    ids = np.full(n, 300, dtype=np.uint32)
    segmentation = Segmentation((Segment("content", 0, n),), (note,), 0)
    answer = Answer(family.bound, family.tokenizer, ids, segmentation, finish_reason=finish)
    return [(flag.code, flag.severity, flag.message) for flag in check_structure(answer)]


@pytest.mark.parametrize("code", sorted(NOTED))
def test_every_note_has_a_sentence_whatever_its_detail(qwen3: Family, code: str) -> None:
    for detail in ("", "text", "begin", "end", "open", "stray", "channel", "unended", "something new"):
        ((found, severity, message),) = noted(qwen3, Note(code, 0, 1, detail))
        assert found == code
        assert severity in {"info", "warning", "error"}
        assert message.endswith(".")
        assert message[0].isupper()


@pytest.mark.parametrize(
    ("note", "finish", "severity", "words"),
    [
        (Note("header_malformed", 3, 9), "stop", "error", "cannot be read"),
        (Note("header_malformed", 3, 9), "length", "warning", "cut off at the token limit"),
        (Note("header_malformed", 1, 5), "length", "error", "cannot be read"),  # it was whole, and wrong
        (Note("final_missing", 3, 9), "stop", "error", "neither final nor a tool call"),
        (Note("final_missing", 3, 9), "length", "warning", "token limit"),
        (Note("reasoning_unclosed", 0, 9), "length", "error", "before the token limit"),
        (Note("tool_call_bare", 0, 1), "stop", "info", "no begin marker"),
        (Note("delimiter_shared", 0, 1), "stop", "info", "shares an id"),
        (Note("tool_call_in_reasoning", 0, 1, "text"), "stop", "info", "text of the reasoning"),
    ],
)
def test_a_note_is_as_grave_as_its_cause(qwen3: Family, note: Note, finish: str, severity: str, words: str) -> None:
    ((code, found, message),) = noted(qwen3, note, finish=finish)
    assert (code, found) == (note.code, severity)
    assert words in message


def hostile(family: Family) -> st.SearchStrategy[list[int]]:
    known = sorted({*family.bound.ids.values(), *family.bound.stop_ids})
    words = [
        family.ids(word)
        for word in ("Step 1: check again.\n", "again", "<", "think>", "{", "🦀", '"name": "f"', "é", "。", "```\n")
    ]
    piece = st.sampled_from([[number] for number in known] + words + [[172], [253], [2**32 - 1], [999_999], [198]])
    return st.lists(st.tuples(piece, st.integers(1, 30)), max_size=25).map(
        lambda runs: [number for ids, times in runs for _ in range(times) for number in ids]
    )


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_ids_are_checked_within_what_is_declared(
    families: dict[str, Family], name: str, data: st.DataObject
) -> None:
    family = families[name]
    ids = np.array(data.draw(hostile(family)), dtype=np.uint32)
    finish = data.draw(st.sampled_from(["stop", "length", "abort", ""]))
    matched = data.draw(st.sampled_from([None, 5, "x", [3, 4]]))
    prompt = family.prompt_ids(data.draw(st.sampled_from([OPENED, CLOSED, SILENT])))
    segmentation = family.bound.segment(prompt, ids)
    answer = Answer(
        family.bound,
        family.tokenizer,
        ids,
        segmentation,
        finish_reason=finish,
        finish_matched=matched,
        tools=TOOLS,
        stop_ids=family.bound.stop_ids,
    )
    reading = Reading(family.bound, family.tokenizer, "What do plants do?", ids, segmentation, finish_reason=finish)
    found = [(check, flag) for check in ID_CHECKS for flag in check.run(answer)]
    found += [(check, flag) for check in TEXT_CHECKS for flag in check.run(reading)]
    for check, flag in found:
        assert flag.code in check.codes
        assert flag.start is not None
        assert flag.end is not None
        assert 0 <= flag.start <= flag.end <= len(ids)
        assert flag.message.endswith((".", ")"))
    ordered = in_order([flag for _, flag in found])
    firsts = [flag.code in {"truncated", "output_empty"} for flag in ordered]
    assert firsts == sorted(firsts, reverse=True)
