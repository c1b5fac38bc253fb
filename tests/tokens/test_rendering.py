"""Conversations to exact ids, and every quiet loss on the way said aloud."""

import json

import numpy as np
import pytest

from inference.tokens.errors import TokensError
from inference.tokens.numbers import as_spelled, as_whole, to_json
from inference.tokens.rendering import flat_ids, render
from tests.support import tiny_tokenizers as tiny
from tests.support.families import Family
from tests.support.tokenizers import real_tokenizer
from tests.tokens.rendering import codes

USER = {"role": "user", "content": "What time is it in Oslo, please?"}
TOOL = {
    "type": "function",
    "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"tz": {"type": "string"}}}},
}
CALL = {"id": "1", "type": "function", "function": {"name": "get_time", "arguments": '{"tz": "Europe/Oslo"}'}}


def loads(text: str):
    """JSON as the prompts room reads it back: numbers carry their digits."""
    return json.loads(text, parse_float=as_spelled, parse_int=as_whole)


def refusal(*args, **kwargs) -> TokensError:
    with pytest.raises(TokensError) as caught:
        render(*args, **kwargs)
    return caught.value


def test_ids_are_the_templates_text_encoded_and_nothing_else(qwen3: Family) -> None:
    found = render(qwen3.tokenizer, [USER])
    assert found.text == f"<|im_start|>user\n{USER['content']}<|im_end|>\n<|im_start|>assistant\n"
    assert found.ids.dtype == np.uint32
    assert qwen3.tokenizer.decode(found.ids) == found.text
    assert codes(found) == []


def test_real_qwen3_renders_as_transformers_does() -> None:
    tokenizer = real_tokenizer("qwen3")
    theirs = tokenizer.backend.apply_chat_template([USER], tools=[TOOL], add_generation_prompt=True)
    assert render(tokenizer, [USER], [TOOL]).ids.tolist() == flat_ids(theirs).tolist()
    off = render(tokenizer, [USER], kwargs={"enable_thinking": False})
    assert off.text.endswith("<think>\n\n</think>\n\n")


def test_no_second_bos_and_a_template_that_writes_two_is_warned_of(deepseek: Family, make) -> None:
    bos = deepseek.tokenizer.bos_id
    ids = render(deepseek.tokenizer, [USER]).ids.tolist()
    assert ids.count(bos) == 1
    double = make("{{ bos_token + bos_token }}{{ messages[0].content }}", bos="<|im_start|>")
    assert "double_bos" in codes(render(double, [USER]))


def test_without_a_template_nothing_is_put_in_its_place(make) -> None:
    error = refusal(make(None), [USER])
    assert error.code == "no_chat_template"
    assert "no chat template" in error.message


def test_a_template_that_raises_gives_its_own_sentence(make) -> None:
    error = refusal(make("{{ raise_exception('Roles must alternate, dear user') }}"), [USER])
    assert (error.code, error.field) == ("template_failed", "messages")
    assert "Roles must alternate, dear user" in error.message


@pytest.mark.parametrize("arguments", ['{"tz": "Europe/Oslo"}', {"tz": "Europe/Oslo"}])
def test_arguments_come_as_text_or_mapping_and_render_alike(qwen3: Family, deepseek: Family, arguments: object) -> None:
    call = {"type": "function", "function": {"name": "get_time", "arguments": arguments}}
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "12:00"},
    ]
    text = render(qwen3.tokenizer, messages, [TOOL]).text
    assert '{"name": "get_time", "arguments": {"tz": "Europe/Oslo"}}' in text
    assert "None" not in text
    real = render(real_tokenizer("deepseek_v3"), messages)
    assert '```json\n{"tz": "Europe/Oslo"}\n```' in real.text
    assert "content_lost" not in codes(real)


def test_null_content_with_calls_is_no_none_in_the_prompt() -> None:
    found = render(
        real_tokenizer("qwen3"), [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}], [TOOL]
    )
    assert "None" not in found.text
    assert codes(found) == []


DIGITS = '{"z": 1.10, "a": 1e400, "b": 12345678901234567890, "c": -0, "d": [1E5, 0.1], "e": "\\"#:0"}'


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("name", ["qwen3", "deepseek_v3"])
def test_numbers_reach_the_prompt_with_the_digits_they_were_written_with(name: str, as_text: bool) -> None:
    arguments = DIGITS if as_text else loads(DIGITS)
    calls = [{"type": "function", "function": {"name": "get_time", "arguments": arguments}}]
    conversation = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "42"},
    ]
    found = render(real_tokenizer(name), conversation)
    assert DIGITS in found.text
    assert codes(found) == []


def test_numbers_of_tools_keep_their_digits() -> None:
    schema = '{"default": 1.10, "maximum": 1e400, "minimum": -0}'
    tools = [{"type": "function", "function": {"name": "f", "parameters": loads(schema)}}]
    assert schema in render(real_tokenizer("qwen3"), [USER], tools).text
    assert schema in render(real_tokenizer("qwen3"), [USER], to_json(tools)).text


def test_a_template_may_print_a_number_without_json(make) -> None:
    printing = "{% for c in messages[-1].tool_calls %}{{ c.function.name }} {{ c.function.arguments.x }}{% endfor %}"
    calls = [{"function": {"name": "f", "arguments": '{"x": 1.10}'}}]
    assert render(make(printing), [{"role": "assistant", "tool_calls": calls}]).text == "f 1.10"


def test_numbers_that_a_template_respells_are_warned_of(make) -> None:
    respelling = (
        "{% for c in messages[-1].tool_calls %}{{ c.function.name }} x {{ c.function.arguments.x * 1 }}{% endfor %}"
    )
    calls = [{"function": {"name": "f", "arguments": '{"x": 1.10}'}}]
    found = render(make(respelling), [{"role": "assistant", "tool_calls": calls}])
    assert [(item.code, "arguments.x" in item.message) for item in found.warnings] == [("content_lost", True)]


def test_arguments_that_are_not_json_are_rendered_as_they_are_with_a_warning() -> None:
    call = {"function": {"name": "get_time", "arguments": '{"x": 1'}}
    found = render(real_tokenizer("qwen3"), [USER, {"role": "assistant", "content": "", "tool_calls": [call]}])
    assert '"arguments": {"x": 1}' in found.text  # the template's own brace
    assert "arguments_not_json" in codes(found)


@pytest.mark.parametrize("role", ["developer", "gpt", "function"])
@pytest.mark.parametrize("content", ["hi", "A longer instruction that could hardly be found by accident."])
def test_a_role_that_the_template_leaves_out_is_content_lost(role: str, content: str) -> None:
    found = render(
        real_tokenizer("qwen3"), [{"role": role, "content": content}, {"role": "user", "content": "hi there"}]
    )
    assert codes(found) == ["content_lost"]
    assert "messages[0].content" in found.warnings[0].message


@pytest.mark.parametrize("name", ["get_time", "f", "time"])
def test_tools_that_the_template_ignores_are_content_lost(make, name: str) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": {}}}
    found = render(make("It is time: {{ messages[0].content }}"), [USER], [tool])
    assert [(item.code, f"tool {name} " in item.message) for item in found.warnings] == [("content_lost", True)]
    assert codes(render(make("{{ messages[0].content }}{{ tools[0] | tojson }}"), [USER], [tool])) == []


def test_reasoning_of_earlier_turns_is_told_and_is_no_loss() -> None:
    turns = [
        USER,
        {"role": "assistant", "content": "<think>long thought</think>Noon."},
        {"role": "user", "content": "Thanks!"},
    ]
    found = render(real_tokenizer("qwen3"), turns)
    assert codes(found) == ["reasoning_stripped"]
    assert "messages[1]" in found.warnings[0].message
    field = [
        USER,
        {"role": "assistant", "reasoning": "long thought", "content": "Noon."},
        {"role": "user", "content": "Thanks!"},
    ]
    assert codes(render(real_tokenizer("qwen3"), field)) == ["reasoning_stripped"]


@pytest.mark.parametrize("turn", [{"content": "<think>r</think>yo"}, {"content": "yo", "reasoning_content": "r"}])
def test_reasoning_of_one_letter_is_not_found_by_accident(turn: dict[str, str]) -> None:
    turns = [USER, {"role": "assistant", **turn}, {"role": "user", "content": "and in Rome?"}]
    assert codes(render(real_tokenizer("qwen3"), turns)) == ["reasoning_stripped"]
    assert (
        codes(render(real_tokenizer("qwen3"), turns[:2], add_generation_prompt=False)) == []
    )  # the last turn keeps it


def test_empty_content_beside_calls_loses_no_call_where_the_family_wants_null() -> None:
    real = real_tokenizer("deepseek_v3")
    turns = [
        [USER, {"role": "assistant", "content": content, "tool_calls": [CALL]}, {"role": "tool", "content": "42"}]
        for content in (None, "")
    ]
    null, empty = (render(real, turn) for turn in turns)
    assert empty.ids.tolist() == null.ids.tolist()
    assert "get_time" in empty.text
    assert codes(empty) == []


def test_tools_that_only_the_checkpoints_own_code_writes_officially_are_told(make) -> None:
    jinja = "{% if tools %}{% if tools_ts_str %}{{ tools_ts_str }}{% else %}{{ tools | tojson }}{% endif %}{% endif %}"
    k25 = make(jinja + tiny.KIMI_TEMPLATE, added=tiny.KIMI_K2)
    found = render(k25, [USER], [TOOL])
    assert codes(found) == ["tool_text_unofficial"]
    assert "DRAFTMILL_ALLOW_REMOTE_CODE" in found.warnings[0].message
    assert codes(render(k25, [USER])) == []
    given = render(k25, [USER], [TOOL], {"tools_ts_str": "type get_time = (_: {tz: string}) => any"})
    assert given.text.startswith("type get_time")
    assert codes(given) == []
    k2 = make("{% if tools %}{{ tools | tojson }}{% endif %}" + tiny.KIMI_TEMPLATE, added=tiny.KIMI_K2)
    assert codes(render(k2, [USER], [TOOL])) == []


@pytest.mark.parametrize(("text", "changed"), [("cafe\u0301", True), ("caf\u00e9", False), ("a\r\nb", False)])
def test_text_that_the_tokenizer_changes_is_a_note(text: str, changed: bool) -> None:
    found = render(real_tokenizer("qwen3"), [{"role": "user", "content": text}])
    assert codes(found) == (["text_changed"] if changed else [])
    assert found.ids.tolist() == real_tokenizer("qwen3").encode(found.text)


def test_control_tokens_in_user_text_are_told(qwen3: Family) -> None:
    found = render(qwen3.tokenizer, [{"role": "user", "content": "ignore <|im_end|> and <think> on"}])
    assert codes(found) == ["control_in_prompt"]
    assert "<think>" in found.warnings[0].message
    own = render(
        qwen3.tokenizer, [USER, {"role": "assistant", "content": "<think>a thought of mine</think>b and more"}]
    )
    assert "control_in_prompt" not in codes(own)


def test_none_and_python_reprs_in_the_prompt_are_told(make) -> None:
    none = make("{{ messages[0].content }}{{ messages[0].name_that_is_missing | default(none) }}")
    assert codes(render(none, [USER])) == ["none_in_prompt"]
    spoken = {"role": "user", "content": "None of these, please: None."}
    assert codes(render(make("{{ messages[0].content }}"), [spoken])) == []
    shown = make("{{ messages[0].content }}{{ tools }}")
    assert "none_in_prompt" in codes(render(shown, [USER], [TOOL]))


@pytest.mark.parametrize(
    ("messages", "code", "field"),
    [
        ([], "bad_message", "messages"),
        ([{"content": "x"}], "bad_message", "messages[0].role"),
        ([{"role": "user", "content": 5}], "bad_message", "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "unsupported_part", "messages[0].content[0]"),
        ([{"role": "assistant", "tool_calls": {}}, USER], None, None),
        ([{"role": "assistant", "tool_calls": "x"}], "bad_message", "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "bad_message", "messages[0].tool_calls[0]"),
        ([{"role": "user", "content": "x\ud83d y"}], "invalid_text", "messages"),
    ],
)
def test_messages_in_the_wrong_shape_are_named(
    qwen3: Family, messages: list, code: str | None, field: str | None
) -> None:
    if code is None:
        assert render(qwen3.tokenizer, messages).ids.size
        return
    error = refusal(qwen3.tokenizer, messages)
    assert (error.code, error.field) == (code, field)


def test_text_parts_are_joined_and_it_is_said(qwen3: Family) -> None:
    parts = [{"type": "text", "text": "first part, "}, {"type": "text", "text": "second part"}]
    found = render(qwen3.tokenizer, [{"role": "user", "content": parts}])
    assert "first part, \nsecond part" in found.text
    assert codes(found) == ["parts_joined"]


@pytest.mark.parametrize(
    ("tools", "outcome"),
    [
        (None, []),
        ([], []),
        ({}, []),
        ('[{"type":"function","function":{"name":"get_time"}}]', []),
        ([{"name": "get_time"}], ["tools_wrapped"]),
        ("[{bad", "bad_tools"),
        ([{"function": {}}], "bad_tools"),
        (["get_time"], "bad_tools"),
        ({"name": "get_time"}, "bad_tools"),
    ],
)
def test_tools_in_the_wrong_shape(qwen3: Family, tools: object, outcome: object) -> None:
    if isinstance(outcome, str):
        assert refusal(qwen3.tokenizer, [USER], tools).code == outcome
    else:
        assert codes(render(qwen3.tokenizer, [USER], tools)) == outcome


def test_template_arguments_of_the_wrong_kind(qwen3: Family) -> None:
    assert codes(render(qwen3.tokenizer, [USER], kwargs={"enable_thinking": "false"})) == ["kwarg_type"]
    error = refusal(qwen3.tokenizer, [USER], kwargs={"tools": []})
    assert (error.code, error.field) == ("bad_template_kwargs", "chat_template_kwargs.tools")


def test_the_date_is_a_parameter(make) -> None:
    dated = make("{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}")
    assert codes(render(dated, [USER])) == ["date_in_prompt"]
    found = render(dated, [USER], kwargs={"strftime_now": "2024-02-29"})
    assert found.text.startswith("2024-02-29 ")
    assert codes(found) == []
    assert refusal(dated, [USER], kwargs={"strftime_now": "yesterday"}).code == "bad_template_kwargs"


def test_consecutive_turns_of_one_role_stay_as_they_are() -> None:
    turns = [USER, {"role": "assistant", "content": "one one one"}, {"role": "assistant", "content": "two two two"}]
    found = render(real_tokenizer("qwen3"), turns)
    assert "one one one" in found.text
    assert "two two two" in found.text


@pytest.mark.parametrize("shape", ["list", "nested", "array", "mapping", "nested_array"])
def test_every_shape_a_tokenizer_answers_with_becomes_flat_ids(shape: str) -> None:
    ids = [1, 200_012, 3]
    answers = {
        "list": ids,
        "nested": [ids],
        "array": np.array(ids),
        "mapping": {"input_ids": [ids], "attention_mask": [[1, 1, 1]]},
        "nested_array": np.array([ids]),
    }
    assert flat_ids(answers[shape]).tolist() == ids


def test_a_tokenizer_that_disagrees_with_its_own_text_is_refused(make, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = make("{{ messages[0].content }}")
    monkeypatch.setattr(tokenizer, "encode", lambda _: [1, 2, 3])
    error = refusal(tokenizer, [USER])
    assert (error.code, error.field) == ("render_mismatch", "tokenizer")
