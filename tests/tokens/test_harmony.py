"""gpt-oss: messages with headers are cut by id; whatever a header holds, no id is lost and nothing is moved."""

import pytest

from tests.support.families import CLOSED, OPENED, SILENT, Family

FULL = (
    "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
    [
        ("control", "<|channel|>"),
        ("control", "analysis"),
        ("control", "<|message|>"),
        ("reasoning", "Think."),
        ("control", "<|end|>"),
        ("control", "<|start|>"),
        ("control", "assistant"),
        ("control", "<|channel|>"),
        ("control", "final"),
        ("control", "<|message|>"),
        ("content", "Hi"),
        ("control", "<|return|>"),
    ],
)


@pytest.fixture
def oss(families: dict[str, Family]) -> Family:
    return families["gpt_oss"]


def without_control(tiles: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [tile for tile in tiles if tile[0] != "control"]


def notes(family: Family, output: str, think: str = SILENT) -> list[tuple[str, str]]:
    return [(note.code, note.detail) for note in family.segment(output, think).notes]


def test_analysis_is_reasoning_and_final_is_content(oss: Family) -> None:
    output, tiles = FULL
    assert oss.tiles(output) == tiles
    assert notes(oss, output) == []
    channels = {part.channel for part in oss.segment(output).segments if part.kind in {"reasoning", "content"}}
    assert channels == {"analysis", "final"}


@pytest.mark.parametrize(
    ("output", "call"),
    [
        (
            '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>',
            'commentary to=functions.f <|constrain|>json<|message|>{"a":1}',
        ),
        (
            "<|channel|>final<|message|>x<|end|><|start|>assistant to=functions.f<|channel|>commentary <|message|>{}<|call|>",
            "assistant to=functions.f<|channel|>commentary <|message|>{}",
        ),
        (
            " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
            " to=functions.f<|channel|>commentary json<|message|>{}",
        ),
        ("<|channel|>analysis to=python<|message|>print(1)<|call|>", "analysis to=python<|message|>print(1)"),
    ],
)
def test_a_message_with_a_recipient_is_a_call_wherever_the_recipient_stands(
    oss: Family, output: str, call: str
) -> None:
    assert [text for kind, text in oss.tiles(output) if kind == "tool_call"] == [call]
    assert notes(oss, output) == []


def test_commentary_without_recipient_is_content_of_its_channel(oss: Family) -> None:
    output = (
        "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    )
    found = [(part.kind, part.channel) for part in oss.segment(output).segments if part.kind == "content"]
    assert found == [("content", "commentary"), ("content", "final")]


@pytest.mark.parametrize(
    ("output", "malformed"),
    [
        (
            "<|channel|>analysis<|message|>x<|end|>commentary<|message|>y<|return|>",
            ["commentary<|message|>y"],
        ),
        ("<|channel|><|channel|>final<|message|>y<|return|>", ["<|channel|><|channel|>final<|message|>y"]),
        ("<|channel|>final", ["<|channel|>final"]),
        ("<|channel|>final<|return|>", ["<|channel|>final"]),
        ("<|channel|>--commentary<|message|>y<|return|>", ["<|channel|>--commentary<|message|>y"]),
        ("<|channel|>finale<|message|>y<|return|>", ["<|channel|>finale<|message|>y"]),
        (
            "<|channel|>final<|end|><|start|>assistant<|channel|>final<|message|>y<|return|>",
            ["<|channel|>final<|end|>"],
        ),
        ("<|message|>a<|message|>b<|end|><|message|>c<|return|>", ["<|message|>c"]),
    ],
)
def test_a_header_that_cannot_be_read_keeps_all_its_ids_as_malformed(
    oss: Family, output: str, malformed: list[str]
) -> None:
    assert [text for kind, text in oss.tiles(output) if kind == "malformed"] == malformed
    assert "header_malformed" in [code for code, _ in notes(oss, output)]


def test_a_good_message_after_a_bad_one_is_read(oss: Family) -> None:
    output = "<|channel|>nonsense<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    assert without_control(oss.tiles(output)) == [
        ("malformed", "<|channel|>nonsense<|message|>x<|end|>"),
        ("content", "Hi"),
    ]
    assert notes(oss, output) == [("header_malformed", "")]


def test_a_message_of_another_role_is_no_answer(oss: Family) -> None:
    output = "<|channel|>final<|message|>Hi<|end|><|start|>user<|message|>more<|end|>"
    assert without_control(oss.tiles(output)) == [("content", "Hi"), ("malformed", "user<|message|>more<|end|>")]
    assert "role_marker_in_output" in [code for code, _ in notes(oss, output)]


@pytest.mark.parametrize(
    ("output", "codes"),
    [
        ("<|channel|>analysis<|message|>x<|end|>", ["final_missing"]),
        ("<|channel|>analysis<|message|>x<|return|>", ["final_missing"]),
        ("<|channel|>commentary<|message|>x<|end|>", ["final_missing"]),
        ("<|channel|>analysis<|message|>x", ["reasoning_unclosed", "final_missing"]),
        ("<|channel|>commentary to=functions.f<|message|>{}<|call|>", []),
        ("<|channel|>commentary to=functions.f<|message|>{", ["tool_call_unclosed"]),
        ("<|channel|>final<|message|>x", []),
        ("<|channel|>final<|message|>x<|end|>", []),
        (
            "<|channel|>analysis<|message|>x<|start|>assistant<|channel|>final<|message|>y<|return|>",
            ["header_malformed"],
        ),
        ("<|message|>x<|return|>", ["header_malformed"]),
        ("<|channel|>final<|message|>x<|return|>\nmore", ["after_stop"]),
    ],
)
def test_how_an_answer_may_end(oss: Family, output: str, codes: list[str]) -> None:
    assert [code for code, _ in notes(oss, output)] == codes


def test_several_messages_of_analysis_are_no_fault(oss: Family) -> None:
    output = (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    )
    found = oss.segment(output)
    assert (len(found.reasoning), found.notes) == (2, ())


@pytest.mark.parametrize(("think", "kind", "state"), [(OPENED, "reasoning", "open"), (CLOSED, "content", "closed")])
def test_an_output_that_begins_within_a_body_goes_on_with_it(oss: Family, think: str, kind: str, state: str) -> None:
    found = oss.segment("more<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>", think)
    assert found.prompt_state == state
    assert found.segments[0].kind == kind
    assert (found.segments[0].start, found.segments[0].end) == (0, len(oss.ids("more")))


def test_without_a_prompt_the_first_header_is_the_assistants(oss: Family) -> None:
    for output in (
        "<|channel|>final<|message|>Hi<|return|>",
        "<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
    ):
        found = oss.bound.segment(None, oss.ids(output))
        assert [part.kind for part in found.segments if part.kind != "control"] == ["content"]
        assert found.notes == ()
        assert found.prompt_state == "unknown"


def test_ordinary_ids_that_spell_a_delimiter_are_text(oss: Family) -> None:
    spelled = [number for character in "<|end|>" for number in oss.ids(character)]
    ids = [*oss.ids("<|channel|>final<|message|>a"), *spelled, *oss.ids("b<|return|>")]
    found = oss.bound.segment(oss.prompt_ids(), ids)
    content = next(part for part in found.segments if part.kind == "content")
    assert oss.tokenizer.decode(ids[content.start : content.end]) == "a<|end|>b"
