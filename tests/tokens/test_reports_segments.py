"""What people met where text is parsed, in every family it can befall: cut from the ids, nothing moved, dropped or doubled."""

import pytest

from inference.tokens.formats import all_formats, bind, get_format
from inference.tokens.sglang.reasoning import PARSERS
from inference.tokens.toolcalls import read_calls
from tests.support.families import CLOSED, OPENED, PROMPTS, SILENT, Family
from tests.support.tokenizers import real_tokenizer

THINKING = [item.name for item in all_formats() if item.think]
CALLING = [item.name for item in all_formats() if item.think and item.calls]
SECTIONS = [item.name for item in all_formats() if item.calls and item.calls.section_end]


@pytest.fixture(scope="module")
def qwen() -> Family:
    return _real("qwen3", "qwen3")


@pytest.fixture(scope="module")
def oss() -> Family:
    return _real("gpt_oss", "gptoss")


def _real(name: str, tokenizer: str) -> Family:
    loaded = real_tokenizer(tokenizer)
    return Family(bind(get_format(name), loaded), loaded, PROMPTS[name])


def tags(family: Family) -> tuple[str, str, str]:
    """How the family opens and closes reasoning, and how it stops."""
    declared = family.bound.format
    assert declared.think is not None
    return declared.think.open, declared.think.close, declared.stops[0]


def call(family: Family, payload: str) -> str:
    """One call as the family marks it, in a section of its own where it has such."""
    calls = family.bound.format.calls
    assert calls is not None
    return "".join((calls.section_begin or "", calls.begin, payload, calls.end or "", calls.section_end or ""))


def told(family: Family, output: str | list[int], think: str = SILENT) -> list[tuple[str, str]]:
    """Kind and text of all that is no delimiter."""
    ids = family.ids(output) if isinstance(output, str) else output
    found = family.bound.segment(family.prompt_ids(think), ids).segments
    assert [number for part in found for number in ids[part.start : part.end]] == ids
    return [
        (part.kind, family.tokenizer.decode(ids[part.start : part.end])) for part in found if part.kind != "control"
    ]


@pytest.mark.parametrize("name", THINKING)
def test_reasoning_that_the_prompt_opened_is_whole_and_no_fault(families: dict[str, Family], name: str) -> None:
    family = families[name]
    _, close, stop = tags(family)
    assert told(family, f"plan{close}Answer{stop}", OPENED) == [("reasoning", "plan"), ("content", "Answer")]
    assert family.codes(f"plan{close}Answer{stop}", OPENED) == []


@pytest.mark.parametrize("name", THINKING)
def test_line_breaks_around_a_close_stay_where_they_are(families: dict[str, Family], name: str) -> None:
    family = families[name]
    opener, close, _ = tags(family)
    ids = family.ids(f"plan\n{close}\n\nOK")
    found = family.bound.segment(family.ids(f"{family.prompt}{opener}\n"), ids)
    assert found.prompt_state == "open"
    kinds = [(part.kind, family.tokenizer.decode(ids[part.start : part.end]).strip()) for part in found.segments]
    assert kinds == [("reasoning", "plan"), ("control", close), ("content", "OK")]
    assert family.tokenizer.decode(ids) == f"plan\n{close}\n\nOK"


@pytest.mark.parametrize("ending", [CLOSED, "</think>", "<think></think>"])
@pytest.mark.parametrize("name", THINKING)
def test_after_a_prompt_that_closed_the_block_an_answer_is_content_and_no_thought_is_missed(
    families: dict[str, Family], name: str, ending: str
) -> None:
    family = families[name]
    stop = tags(family)[2]
    assert told(family, f"Hi{stop}", ending) == [("content", "Hi")]
    assert family.codes(f"Hi{stop}", ending) == []


@pytest.mark.parametrize(
    ("think", "finish"), [(OPENED, "stop"), (OPENED, "length"), (SILENT, "stop"), (SILENT, "length")]
)
@pytest.mark.parametrize("name", THINKING)
def test_reasoning_that_never_closes_stays_reasoning_however_it_ended(
    families: dict[str, Family], name: str, think: str, finish: str
) -> None:
    family = families[name]
    opener, _, stop = tags(family)
    output = ("" if think == OPENED else opener) + "The answer is 4." + (stop if finish == "stop" else "")
    assert told(family, output, think) == [("reasoning", "The answer is 4.")]
    codes = [code for code in family.codes(output, think, finish) if code != "reasoning_unexpected"]
    assert codes == (
        ["reasoning_unclosed", "content_empty"] if finish == "stop" else ["truncated", "reasoning_unclosed"]
    )


@pytest.mark.parametrize("name", CALLING)
def test_a_call_in_reasoning_that_never_closes_is_one_call_once(families: dict[str, Family], name: str) -> None:
    family = families[name]
    _, close, stop = tags(family)
    within = "look up" + call(family, "x")
    assert told(family, within + stop, OPENED) == [("reasoning", "look up"), ("tool_call", "x")]
    assert [note.code for note in family.segment(within + stop, OPENED).notes] == ["tool_call_in_reasoning"]
    assert told(family, f"{within}{close}Hi{stop}", OPENED) == [("reasoning", within), ("content", "Hi")]


@pytest.mark.parametrize("name", THINKING)
def test_nested_and_repeated_blocks_keep_their_order(families: dict[str, Family], name: str) -> None:
    family = families[name]
    a, b, stop = tags(family)
    assert told(family, f"{a}one{a}two{b}three{b}four{stop}") == [
        ("reasoning", f"one{a}two"),
        ("content", f"three{b}four"),
    ]
    assert [note.code for note in family.segment(f"{a}one{a}two{b}three{b}four").notes] == [
        "nested_open",
        "extra_close",
    ]
    assert told(family, f"{a}one{b}x{a}two{b}y{stop}") == [
        ("reasoning", "one"),
        ("content", "x"),
        ("reasoning", "two"),
        ("content", "y"),
    ]


@pytest.mark.parametrize(("think", "kind"), [(OPENED, "reasoning"), (CLOSED, "content"), (SILENT, "content")])
def test_ids_that_only_read_like_a_close_end_nothing(qwen: Family, think: str, kind: str) -> None:
    spelled = [522, 26865, 29]
    assert qwen.tokenizer.decode(spelled) == qwen.tokenizer.decode([151668]) == "</think>"
    assert told(qwen, [*qwen.ids("a"), *spelled, *qwen.ids("b")], think) == [(kind, "a</think>b")]


@pytest.mark.parametrize(
    ("first", "rest"), [([145233, 378], [235, 145851]), ([123893], [111])], ids=["joiner", "letter"]
)
def test_a_character_that_a_close_cuts_is_broken_on_both_sides_and_no_id_moves(
    qwen: Family, first: list[int], rest: list[int]
) -> None:
    output = [*first, 151668, *rest, 151645]
    (thought, answer) = told(qwen, output, OPENED)
    assert (thought[0], thought[1][-1], answer[0], answer[1][0]) == ("reasoning", "\ufffd", "content", "\ufffd")
    assert qwen.codes(output, OPENED) == ["ends_inside_character"]
    assert told(qwen, [*first, *rest, 151668], OPENED)[0][1] == qwen.tokenizer.decode([*first, *rest])


def test_a_word_in_the_place_of_a_start_token_makes_the_message_malformed(oss: Family) -> None:
    output = [
        *oss.ids("<|channel|>analysis<|message|>x<|end|>"),
        12606,
        *oss.ids("<|message|>y<|end|><|start|>assistant<|channel|>final<|message|>z<|return|>"),
    ]
    assert told(oss, output) == [
        ("reasoning", "x"),
        ("malformed", "comment<|message|>y<|end|>"),
        ("content", "z"),
    ]


@pytest.mark.parametrize("between", ["", "\n", " \n\n"])
@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_without_any_call_is_told(families: dict[str, Family], name: str, between: str) -> None:
    family = families[name]
    calls = family.bound.format.calls
    assert calls is not None
    section = f"{calls.section_begin}{between}{calls.section_end}"
    found = family.inspect(f"Hi{section}{family.bound.format.stops[0]}", CLOSED)
    assert [part.kind for part in found.segmentation.segments].count("content") == 1
    (flag,) = [flag for flag in found.flags if flag.code != "delimiter_shared"]
    assert (flag.code, flag.message) == ("tool_section_unbalanced", "The section of tool calls holds no call.")
    ids = family.ids(f"Hi{section}")
    assert family.tokenizer.decode(ids[flag.start : flag.end]) == section
    full = f"Hi{call(family, 'x')}{family.bound.format.stops[0]}"
    assert "tool_section_unbalanced" not in family.codes(full, CLOSED)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("functions.:0", None),
        ("functions:0", None),
        (".:0", None),
        ("functions..get_time:0", None),
        ("functions.get_time.:0", None),
        ("functions.get.time:0", "get.time"),
        ("functions.get-time:10", "get-time"),
    ],
)
def test_a_header_that_names_only_the_namespace_names_no_tool(kimi: Family, header: str, name: str | None) -> None:
    (found,) = read_calls(kimi.bound, kimi.tokenizer, kimi.ids(f"{header}<|tool_call_argument_begin|>{{}}"))
    assert (found.name, found.arguments) == (name, "{}")
    assert (found.error and found.error.code) == (None if name else "tool_name_unreadable")


@pytest.mark.parametrize(
    ("payload", "at", "shown"),
    [
        ('{"name":"f","arguments":{},"arguments":{"x":1}}', '"arguments":{"x"', '{"x":1}'),
        ('{"name":"f","name":"g","arguments":{}}', '"name":"g"', "{}"),
        ('{"name":"f","arguments":{},"parameters":{"x":1}}', '"parameters"', "{}"),
        ('{"parameters":{"x":1},"name":"f","arguments":{}}', '"parameters"', "{}"),
    ],
)
def test_a_call_that_gives_itself_twice_is_told_at_the_second(qwen3: Family, payload: str, at: str, shown: str) -> None:
    (found,) = read_calls(qwen3.bound, qwen3.tokenizer, qwen3.ids(payload))
    assert found.arguments == shown
    assert found.error is not None
    assert (found.error.code, found.error.position) == ("tool_arguments_invalid", payload.index(at))


def test_whole_calls_survive_an_answer_that_stops_inside_the_last(families: dict[str, Family]) -> None:
    family = families["minimax_m2"]
    whole = '<invoke name="f">\n<parameter name="n">12345678901234567890</parameter>\n</invoke>\n'
    output = f'<minimax:tool_call>\n{whole}<invoke name="g">\n<parameter name="n">a<b&c[e~['
    ids = family.ids(output)
    (part,) = (part for part in family.segment(output, CLOSED).segments if part.kind == "tool_call")
    good, broken = read_calls(family.bound, family.tokenizer, ids[part.start : part.end])
    assert (good.name, good.value, good.error) == ("f", {"n": "12345678901234567890"}, None)
    assert broken.name == "g"
    assert broken.arguments is not None
    assert broken.arguments.endswith("a<b&c")
    assert broken.error is not None
    assert "tool_call_unclosed" in family.codes(output, CLOSED)


RUNS = (" ", "\n", " assistant", "<", "<|", "analysis ", "assistantfina", "<think", "[", "\u3000")


@pytest.mark.parametrize("key", sorted(PARSERS))
def test_an_engines_reading_of_one_thing_over_and_over_comes_back(key: str) -> None:
    """A reading that went through a run again from each place in it would not come back from these."""
    for unit in RUNS:
        text = unit * (400_000 // len(unit))
        for forced in (True, False):
            found = PARSERS[key].read(text, forced=forced)
            assert len(found.reasoning) + len(found.content) <= len(text) + 100
