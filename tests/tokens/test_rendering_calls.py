"""Calls in a conversation reach any template in the form that it takes, whichever way they were uploaded."""

import json

import pytest

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.formats import all_formats
from inference.tokens.numbers import as_spelled, as_whole
from inference.tokens.rendering import render
from tests.support.tokenizers import real_tokenizer
from tests.tokens import rendering as made
from tests.tokens.rendering import USER, Make, calling, codes, template, tool, warned

DIGITS = '{"z": 1.10, "a": 12345678901234567890, "m": [1E5, -0], "t": "Europe/Oslo"}'


@pytest.mark.parametrize("declared", all_formats(), ids=lambda item: item.name)
@pytest.mark.parametrize("kind", sorted(made.CALL_TEMPLATES))
def test_arguments_as_text_and_as_mapping_render_alike_in_every_family_and_kind_of_template(
    make: Make, kind: str, declared: TokenFormat
) -> None:
    tokenizer = make(made.CALL_TEMPLATES[kind])
    mapping = json.loads(DIGITS, parse_float=as_spelled, parse_int=as_whole)
    as_text, as_mapping = (render(tokenizer, calling(form), token_format=declared) for form in (DIGITS, mapping))
    assert as_text.text == as_mapping.text
    wanted = "<z>1.10</z><a>12345678901234567890</a><m>[1E5, -0]</m><t>Europe/Oslo</t>" if kind == "items" else DIGITS
    assert f"<tool_call>get_time:{wanted}</tool_call>" in as_text.text
    assert codes(as_text) == codes(as_mapping) == []


@pytest.mark.parametrize("declared", all_formats(), ids=lambda item: item.name)
@pytest.mark.parametrize(
    "source",
    [
        template("{{ c.arguments | tojson }}", made.CONTENT_TESTED),
        template("{{ c.arguments | tojson }}", made.CONTENT_PRINTED),
        template("{{ c.arguments | tojson }}", "{{ '' + m.content }}"),
        made.NULL_WANTED,
    ],
    ids=["tested", "printed", "joined", "null wanted"],
)
@pytest.mark.parametrize("content", [None, "", ...])
def test_a_call_without_text_is_written_and_no_none_with_it(
    make: Make, source: str, declared: TokenFormat, content: str | None
) -> None:
    messages = calling({"tz": "Europe/Oslo"}, content)
    if content is ...:
        del messages[1]["content"]
    found = render(make(source), messages, token_format=declared)
    assert '<tool_call>get_time:{"tz": "Europe/Oslo"}</tool_call>' in found.text
    assert "None" not in found.text
    assert codes(found) == []


def test_a_template_that_takes_no_form_of_calls_raises_with_its_own_sentence_or_loses_them(make: Make) -> None:
    loses = make("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert warned(loses, calling({"tz": "Europe/Oslo"})) == [("content_lost", 1)]


@pytest.mark.parametrize("given", ['{"x": 1', "[1]", "x=1", 5, [1]])
@pytest.mark.parametrize("source", [made.EITHER, made.PRINTED])
def test_arguments_that_are_no_object_are_told_and_rendered_as_they_are(make: Make, source: str, given: object) -> None:
    found = render(make(source), calling(given))
    assert [(item.code, item.where) for item in found.warnings] == [("arguments_not_json", 1)]
    assert (given if isinstance(given, str) else json.dumps(given)) in found.text


@pytest.mark.parametrize(
    ("arguments", "lost"),
    [
        ({"n": 5}, "arguments.n"),
        ({"flag": True}, "arguments.flag"),
        ({"deep": {"list": [1, {"key": "a"}]}}, "arguments.deep.list[1].key"),
        ({"short": "a"}, "arguments.short"),
    ],
)
def test_an_argument_that_the_template_drops_is_lost_however_short_it_is(
    make: Make, arguments: dict[str, object], lost: str
) -> None:
    """Its name, and letters and digits like it, stand elsewhere in the prompt."""
    drops = make(template("{{ c.arguments | list }}") + "5 true a n flag deep list key short")
    found = render(drops, calling(arguments))
    assert any(item.code == "content_lost" and lost in item.message and item.where == 1 for item in found.warnings)
    assert codes(render(make(made.EITHER), calling(arguments))) == []


def test_only_the_first_of_several_calls_is_written(make: Make) -> None:
    """As gpt-oss's template does."""
    first = make(
        "{% for m in messages %}{{ m.content or '' }}{% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% endif %}{% endfor %}"
    )
    messages = calling({"tz": "Europe/Oslo"})
    messages[1]["tool_calls"] *= 2
    messages.append(messages[2])
    assert warned(first, messages) == [("content_lost", 1)]
    assert "tool_calls[1]" in render(first, messages).warnings[0].message


def test_a_call_beside_text_is_lost_where_the_template_writes_one_of_them() -> None:
    found = render(real_tokenizer("deepseek_v3"), calling({"tz": "Europe/Oslo"}, "Let me look it up."))
    assert [(item.code, item.where) for item in found.warnings] == [("content_lost", 1)]
    assert "get_time" in found.warnings[0].message


def test_a_name_written_by_its_calls_id_is_there_and_by_an_id_without_it_is_lost(make: Make) -> None:
    """As Kimi's templates write calls. The tool list holds the name either way."""
    by_id = make(
        "{{ tools | tojson }}{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
        "{{ c.id }}:{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
    )
    messages = calling({"tz": "Europe/Oslo"})
    tools = [tool("get_time")]
    assert warned(by_id, messages, tools) == [("content_lost", 1)]
    messages[1]["tool_calls"][0]["id"] = messages[2]["tool_call_id"] = "functions.get_time:0"
    assert warned(by_id, messages, tools) == []


def test_parts_of_a_tool_that_the_template_drops_are_told(make: Make) -> None:
    names = make("{% for t in tools %}{{ t.function.name }} {% endfor %}{{ messages[0].content }} tz Tells the time.")
    found = render(names, [USER], [tool("get_time", tz={"type": "string"})])
    assert codes(found) == ["tool_part_lost"]
    assert "its description, its parameter tz" in found.warnings[0].message
    lines = make(
        "{% for t in tools %}{{ t.function.name }}: {{ t.function.description | replace('\n', '\n// ') }} "
        "{{ t.function.parameters.properties | list }}{% endfor %}{{ messages[0].content }}"
    )
    assert codes(render(lines, [USER], [tool("get_time", "Tells\nthe time.")])) == []


RESULT = {"role": "tool", "content": "42"}
CALLS = [{"function": {"name": "f", "arguments": {}}}] * 2


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([RESULT], [0]),
        ([RESULT, RESULT], [0, 1]),
        ([USER, RESULT], [1]),
        ([USER, {"role": "assistant", "tool_calls": CALLS}, RESULT, RESULT], []),
        ([USER, {"role": "assistant", "tool_calls": CALLS[:1]}, RESULT, RESULT], [3]),
        ([USER, {"role": "assistant", "tool_calls": CALLS[:1]}, RESULT, USER, RESULT], [4]),
        ([USER, {"role": "assistant", "content": '<tool_call>{"name": "f"}</tool_call>'}, RESULT], []),
    ],
)
def test_a_tools_result_that_no_call_waits_for_is_told_and_rendered(messages: list[dict], told: list[int]) -> None:
    found = render(real_tokenizer("qwen3"), messages)
    assert [item.where for item in found.warnings if item.code == "tool_without_call"] == told
    assert "content_lost" not in codes(found)
    assert found.text.count("<tool_response>\n42\n</tool_response>") == messages.count(RESULT)


def test_results_in_a_row_keep_their_order() -> None:
    calls = [{"function": {"name": "f", "arguments": {"n": at}}} for at in range(3)]
    results = [{"role": "tool", "content": text} for text in ("third", "first", "second")]
    text = render(real_tokenizer("qwen3"), [USER, {"role": "assistant", "tool_calls": calls}, *results]).text
    assert text.index("third") < text.index("first") < text.index("second")


@pytest.mark.parametrize("depth", [90, 400, 900, 5000])
@pytest.mark.parametrize("kind", ["mapping", "list", "text"])
def test_nesting_beyond_what_a_template_can_walk_is_refused_or_told_and_breaks_nothing(kind: str, depth: int) -> None:
    value: object = "x"
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    arguments = '{"a":' * depth + '"x"' + "}" * depth if kind == "text" else {"a": value}
    if kind != "text" and depth > 100:
        with pytest.raises(TokensError, match="nested too deep") as caught:
            render(real_tokenizer("qwen3"), calling(arguments))
        assert (caught.value.code, caught.value.field) == ("bad_message", "messages[1].tool_calls[0]")
        with pytest.raises(TokensError, match="nested too deep"):
            render(real_tokenizer("qwen3"), [USER], [tool("f", a=value)])
    else:
        told = ["arguments_not_json"] if depth > 100 else []
        assert codes(render(real_tokenizer("qwen3"), calling(arguments))) == told
