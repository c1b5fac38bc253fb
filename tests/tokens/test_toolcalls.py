"""Calls as generated: names, raw arguments, the place of the first error, and never a repair."""

import json

import pytest

from inference.tokens.payloads.jsontext import JsonError, Number, read_whole
from inference.tokens.schema import check_call
from inference.tokens.toolcalls import ToolCall, read_call, read_calls, token_at
from tests.support.families import Family

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_time",
            "parameters": {
                "type": "object",
                "properties": {
                    "tz": {"type": "string", "enum": ["UTC", "CET"]},
                    "n": {"type": "integer"},
                    "x": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                    "at": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
                    "days": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["tz"],
            },
        },
    },
    {"name": "get_weather", "parameters": {}},
    {"type": "function", "function": {"name": "get-time", "parameters": {"type": "object", "properties": {}}}},
]


def call(family: Family, text: str, tools: list[dict] | None = None) -> ToolCall:
    return read_call(family.bound, family.tokenizer, family.ids(text), tools)


def test_hermes_name_and_raw_arguments(qwen3: Family) -> None:
    found = call(qwen3, '\n{"name": "f", "arguments": {"b" : 1.50,"a":12345678901234567890, "c":1e400}}\n')
    assert (found.name, found.arguments) == ("f", '{"b" : 1.50,"a":12345678901234567890, "c":1e400}')
    assert found.valid
    assert found.value == {"b": Number("1.50"), "a": Number("12345678901234567890"), "c": Number("1e400")}


@pytest.mark.parametrize(
    ("payload", "code", "position"),
    [
        ('{"name":"f","arguments":{"p":"C:\\path"}}', "tool_json_invalid", 32),
        ('{"name":"f","arguments":{"t":"a\nb"}}', "tool_json_invalid", 31),
        ('{"name":"f","arguments":{"x":1}', "tool_json_invalid", 31),
        ('{"name":"f","arguments":{}} and more', "tool_json_invalid", 28),
        ('{"name":"f","arguments":{"x":NaN}}', "tool_json_invalid", None),
        ("", "tool_json_invalid", 0),
        ("[" * 100_000, "tool_json_invalid", None),
        ('"hello"', "tool_name_unreadable", 0),
        ("[]", "tool_name_unreadable", 0),
        ("[null]", "tool_name_unreadable", 1),
        ("[[]]", "tool_name_unreadable", 1),
        ("17", "tool_name_unreadable", 0),
        ('{"arguments":{}}', "tool_name_unreadable", 0),
        ('{"name":7,"arguments":{}}', "tool_name_unreadable", 8),
        ('{"name":"f"}', "tool_arguments_invalid", 0),
        ('{"name":"f","arguments":"hello"}', "tool_arguments_invalid", 24),
        ('{"name":"f","arguments":null}', "tool_arguments_invalid", 24),
        ('{"name":"f","arguments":[1,2]}', "tool_arguments_invalid", 24),
    ],
)
def test_hermes_faults_have_a_place(qwen3: Family, payload: str, code: str, position: int | None) -> None:
    found = call(qwen3, payload)
    assert not found.valid
    assert found.error is not None
    assert found.error.code == code
    if position is not None:
        assert found.error.position == position


def test_hermes_parameters_are_read_and_twice_encoded_arguments_named(qwen3: Family) -> None:
    assert call(qwen3, '{"name":"f","parameters":{"x":1}}').arguments == '{"x":1}'
    twice = call(qwen3, '{"name":"f","arguments":"{\\"x\\":1}"}')
    assert twice.arguments == '"{\\"x\\":1}"'
    assert twice.error is not None
    assert "encoded twice" in twice.error.message


def test_one_bad_sibling_does_not_take_the_good_call_with_it(qwen3: Family) -> None:
    ids = qwen3.ids('[{"name":"f","arguments":{"x":1}}, 5, {"name":"g","arguments":{}}]')
    found = read_calls(qwen3.bound, qwen3.tokenizer, ids)
    assert [(item.name, item.arguments, item.valid) for item in found] == [
        ("f", '{"x":1}', True),
        (None, None, False),
        ("g", "{}", True),
    ]


@pytest.mark.parametrize(
    ("header", "tools", "name"),
    [
        ("functions.get_time:0", None, "get_time"),
        ("functions.get-time:12", None, "get-time"),
        ("functions.a.b:3", None, "a.b"),
        ("get_time:0", None, "get_time"),
        ("functionsget_time0", None, None),
        ("functionsget_time0", TOOLS, "get_time"),
        ("functions_get_weather_1", TOOLS, "get_weather"),
        ("get_time", TOOLS, "get_time"),
        ("get_time", None, None),
        ("0", TOOLS, None),
        ("", TOOLS, None),
        ("call00003", TOOLS, None),
        (" functions.get_time:0\n", None, "get_time"),
    ],
)
def test_kimi_headers(kimi: Family, header: str, tools: list[dict] | None, name: str | None) -> None:
    found = call(kimi, header + '<|tool_call_argument_begin|>{"tz":"UTC"}', tools)
    assert found.name == name
    assert found.arguments == '{"tz":"UTC"}'  # the call is not lost with its name
    assert found.valid is (name is not None)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ('"{\\"tz\\":\\"UTC\\"}"', "tool_arguments_invalid", "twice"),
        ('{"tz":"UTC"', "tool_json_invalid", "not JSON"),
        ("", "tool_arguments_invalid", "empty"),
        ("  ", "tool_arguments_invalid", "empty"),
    ],
)
def test_kimi_arguments_are_kept_raw_and_their_fault_named(kimi: Family, arguments: str, code: str, word: str) -> None:
    found = call(kimi, "functions.get_time:0<|tool_call_argument_begin|>" + arguments)
    assert found.arguments == arguments.strip()
    assert found.error is not None
    assert found.error.code == code
    assert word in found.error.message


def test_kimi_without_the_argument_marker_is_read_with_a_note(kimi: Family) -> None:
    found = call(kimi, 'functions.get_time:0{"tz":"UTC"}')
    assert (found.name, found.arguments, found.valid) == ("get_time", '{"tz":"UTC"}', True)
    assert found.note is not None


@pytest.mark.parametrize(
    ("payload", "name", "arguments", "noted"),
    [
        ('function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```', "f", '{"a": 1}', False),
        ('function<｜tool▁sep｜>f\n```json\n{"a": "```"}\n```\n', "f", '{"a": "```"}', False),
        ('f<｜tool▁sep｜>{"a": 1}', "f", '{"a": 1}', True),
        ('function<｜tool▁sep｜>{"a": 1}', "function", '{"a": 1}', True),
    ],
)
def test_deepseek_calls_in_both_dialects(
    deepseek: Family, payload: str, name: str, arguments: str, noted: bool
) -> None:
    found = call(deepseek, payload)
    assert (found.name, found.arguments, found.valid) == (name, arguments, True)
    assert (found.note is not None) is noted


@pytest.mark.parametrize("payload", ["", "function f {}", "function<｜tool▁sep｜>", "a b<｜tool▁sep｜>c d"])
def test_deepseek_calls_without_shape_are_kept_and_flagged(deepseek: Family, payload: str) -> None:
    found = call(deepseek, payload)
    assert found.name is None
    assert found.error is not None
    assert found.error.code == "tool_name_unreadable"


def test_an_error_deep_in_a_call_is_placed_in_the_whole_payload(kimi: Family) -> None:
    text = 'functions.get_time:0<|tool_call_argument_begin|>{"tz" 1}'
    found = call(kimi, text)
    assert found.error is not None
    assert found.error.position == text.index(" 1}") + 1
    ids = kimi.ids(text)
    at = token_at(kimi.tokenizer, ids, found.error.position)
    before = len(kimi.tokenizer.decode(ids[:at]))
    assert before <= found.error.position < before + len(kimi.tokenizer.decode(ids[at : at + 1]))


@pytest.mark.parametrize(
    ("name", "arguments", "codes"),
    [
        ("get_time", '{"tz":"UTC"}', []),
        ("get_tme", '{"tz":"UTC"}', ["tool_unknown"]),
        ("get_time", '{"tz":"UTC","zone":1}', ["tool_argument_unknown"]),
        ("get_time", "{}", ["tool_argument_missing"]),
        ("get_time", '{"tz":1}', ["tool_argument_type"]),
        ("get_time", '{"tz":"MARS"}', ["tool_argument_type"]),
        ("get_time", '{"tz":"UTC","n":"1"}', ["tool_argument_type"]),
        ("get_time", '{"tz":"UTC","n":1.5}', ["tool_argument_type"]),
        ("get_time", '{"tz":"UTC","n":1.0}', []),
        ("get_time", '{"tz":"UTC","n":true}', ["tool_argument_type"]),
        ("get_time", '{"tz":"UTC","x":null}', []),
        ("get_time", '{"tz":"UTC","x":1e400}', []),
        ("get_time", '{"tz":"UTC","x":"1"}', ["tool_argument_type"]),
        ("get_time", '{"tz":"UTC","at":{}}', ["tool_argument_missing"]),
        ("get_time", '{"tz":"UTC","at":{"lat":1,"b":2}}', ["tool_argument_unknown"]),
        ("get_time", '{"tz":"UTC","days":["a",1]}', ["tool_argument_type"]),
        ("get_weather", '{"anything":1}', []),
    ],
)
def test_schemas_are_checked_apart_from_the_json(kimi: Family, name: str, arguments: str, codes: list[str]) -> None:
    found = call(kimi, f"functions.{name}:0<|tool_call_argument_begin|>{arguments}")
    assert found.valid
    assert [error.code for error in check_call(found, TOOLS)] == codes


@pytest.mark.parametrize(
    "tools", [None, [], [{}], [{"function": None}], ["x"], [{"function": {"name": "f", "parameters": "x"}}]]
)
def test_tools_of_any_shape_break_nothing(kimi: Family, tools: list | None) -> None:
    found = call(kimi, "functions.f:0<|tool_call_argument_begin|>{}", tools)
    assert check_call(found, tools) == []


def test_no_number_is_too_long_to_keep() -> None:
    digits = "9" * 5000
    assert read_whole(digits).value == digits
    assert json.dumps(json.loads("1e400")) == "Infinity"  # what a float would have made of it
    assert read_whole(" 1e400 ").value == "1e400"


@pytest.mark.parametrize("text", ["", " ", "NaN", "-Infinity", "01", "{'a':1}", '{"a":1,}', "1 2"])
def test_what_is_not_json_is_an_error_with_a_place(text: str) -> None:
    with pytest.raises(JsonError) as caught:
        read_whole(text)
    assert 0 <= caught.value.position <= len(text)
