"""Message shapes: what data sets call things, what is mended with a word, and what is refused."""

import json
from typing import Any

import pytest

from inference.prompts.service import list_prompts, prompt_bodies
from inference.tokens.numbers import SpelledFloat
from tests.prompts.uploading import Desk

USER = {"role": "user", "content": "hi"}


def only(desk: Desk, row: object, **more: Any) -> list[dict[str, Any]]:
    made = desk.rows(row, **more)
    assert made.rejected == 0, made.errors
    (messages,) = desk.messages(made)
    return messages


def refusal(desk: Desk, row: object) -> tuple[str, str]:
    made = desk.rows(row, {"prompt": "good"})
    assert (made.accepted, made.rejected) == (1, 1)
    return made.errors[0].code, made.errors[0].message


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        ({"prompt": "q"}, "q"),
        ("q", "q"),
        ({"question": "q", "answer": "a"}, "q"),
        ({"instruction": "q", "input": "", "output": "a"}, "q"),
        ({"instruction": "do", "input": "this", "output": "a"}, "do\n\nthis"),
        ({"text": "q"}, "q"),
        ({"query": "q"}, "q"),
        ({"input": [{"role": "user", "content": "q"}], "output": "a"}, "q"),
        ({"prompt": [{"role": "user", "content": "q"}], "answer": "a"}, "q"),
        (
            {
                "prompt": "ignored",
                "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
            },
            "q",
        ),
        (
            {
                "instruction": "x",
                "response": "y",
                "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}],
            },
            "q",
        ),
        ({"conversation": [{"role": "user", "content": "q"}]}, "q"),
        ({"messages": '[{"role":"user","content":"q"}]'}, "q"),
    ],
)
def test_prompt_is_found_under_the_names_data_sets_use(desk: Desk, row: object, asked: str) -> None:
    assert only(desk, row) == [{"role": "user", "content": asked}]


@pytest.mark.parametrize(
    ("row", "source_id", "category"),
    [
        ({"id": "a", "category": "c"}, "a", "c"),
        ({"prompt_id": "a", "source": "s"}, "a", "s"),
        ({"uuid": "u", "category": None}, "u", ""),
        ({"conversation_id": 12, "category": 3}, "12", "3"),
        ({"id": 12345678901234567890123}, "12345678901234567890123", ""),
        ({}, "line-1", ""),
        ({"id": ""}, "line-1", ""),
    ],
)
def test_id_and_category_are_found_under_the_names_data_sets_use(
    desk: Desk, row: dict[str, Any], source_id: str, category: str
) -> None:
    made = desk.rows({**row, "prompt": "x"})
    ((prompt, _),) = desk.stored(made)
    assert (prompt.source_id, prompt.category) == (source_id, category)
    assert made.categories == {category: 1}


def test_system_column_becomes_the_system_message_unless_there_is_one(desk: Desk) -> None:
    assert only(desk, {"input": [USER], "system_prompt": "detailed thinking on"})[0] == {
        "role": "system",
        "content": "detailed thinking on",
    }
    made = desk.rows({"messages": [{"role": "system", "content": "own"}, USER], "system": "other"})
    assert desk.messages(made)[0][0]["content"] == "own"
    assert desk.codes(made) == [(1, "warning", "system_ignored")]


@pytest.mark.parametrize(
    ("name", "role"),
    [("human", "user"), ("user", "user"), ("Human", "user"), ("system", "system"), ("developer", "developer"), ("tool", "tool"),
     ("observation", "tool"), ("function", "tool"), ("function-response", "tool"), ("tool_response", "tool")],
)  # fmt: skip
def test_role_variants_are_mapped(desk: Desk, name: str, role: str) -> None:
    messages = only(desk, {"conversations": [{"from": name, "value": "x"}, {"from": "human", "value": "y"}]})
    assert [message["role"] for message in messages] == [role, "user"]


@pytest.mark.parametrize("name", ["gpt", "assistant", "chatgpt", "bing", "bard", "model"])
def test_answerer_variants_are_mapped(desk: Desk, name: str) -> None:
    messages = only(desk, {"conversations": [{"from": name, "value": "x"}, {"from": "human", "value": "y"}]})
    assert messages[0] == {"role": "assistant", "content": "x"}


@pytest.mark.parametrize(
    ("row", "code", "quoted"),
    [
        ({"conversations": [{"from": "hummany", "value": "x"}]}, "role_unknown", '"hummany"'),
        ({"messages": [{"content": "x"}]}, "role_missing", "messages[0]"),
        ({"messages": [{"role": 5, "content": "x"}]}, "role_unknown", "5"),
        ({"conversations": []}, "conversation_empty", "conversations"),
        ({"messages": "not json"}, "messages_not_json", "messages"),
        ({"messages": {"role": "user"}}, "messages_not_list", "messages"),
        ({"messages": ["hi"]}, "message_not_object", '"hi"'),
        ({"messages": [{"role": "system", "content": "x"}]}, "nothing_to_answer", "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "nothing_to_answer", "messages"),
        ({"messages": [{"role": "user", "content": None}]}, "content_missing", "messages[0]"),
        ({"messages": [{"role": "user", "content": 5}]}, "content_not_text", "5"),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, "content_not_text", "object"),
        ({"messages": [USER, {"role": "assistant", "content": None}, USER]}, "content_missing", "messages[1]"),
        ({"messages": [{"role": "user", "content": " "}]}, "prompt_empty", "messages[0]"),
        ({"prompt": ""}, "prompt_empty", "prompt"),
        ({"prompt": 7}, "prompt_not_text", "7"),
        ({"prompt": {"a": 1}}, "prompt_not_text", "object"),
        ({"prompt": None, "other": 1}, "prompt_empty", '"other"'),
        ({"id": ["a"], "prompt": "x"}, "id_not_text", "list"),
        ({"category": {"a": 1}, "prompt": "x"}, "category_not_text", "object"),
        ({"category": "a\x00b", "prompt": "x"}, "category_not_text", "NUL"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "needs_vision", "image_url"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "content_not_text", "messages[0]"),
        ({"prompt": "x", "tools": "[{bad"}, "tools_not_json", "tools"),
        ({"prompt": "x", "tools": 5}, "tools_wrong_shape", "5"),
        ({"prompt": "x", "tools": ["x"]}, "tools_not_json", "tools[0]"),
        ({"prompt": "x", "tools": [{"description": "no name"}]}, "tools_wrong_shape", "tools[0]"),
        ({"prompt": "x", "tools": [{"type": "function", "function": {}}]}, "tools_wrong_shape", "tools[0]"),
        ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}, USER]}, "tool_call_unreadable", "tool_calls[0]"),
        ({"conversations": [{"from": "human", "value": "x"}, {"from": "function_call", "value": "f(x)"}, {"from": "tool", "value": "y"}]}, "tool_call_unreadable", "conversations[1]"),
    ],
)  # fmt: skip
def test_row_that_cannot_be_used_is_refused_and_its_value_quoted(
    any_desk: Desk, row: object, code: str, quoted: str
) -> None:
    found, message = refusal(any_desk, row)
    assert found == code
    assert quoted in message
    assert len(message) < 400


def test_quoted_values_are_bounded(desk: Desk) -> None:
    _, message = refusal(desk, {"messages": [{"role": "x" * 100_000, "content": "y"}]})
    assert len(message) < 300


def test_trailing_answers_are_left_out_with_one_counted_notice(desk: Desk) -> None:
    answered = {"messages": [USER, {"role": "assistant", "content": "one"}, {"role": "assistant", "content": None}]}
    made = desk.rows(*[answered] * 30, {"messages": [USER]})
    assert desk.messages(made) == [[USER]] * 31
    assert (made.accepted, made.warnings) == (31, 0)
    assert made.errors == []
    assert desk.codes(made) == [(1, "notice", "answer_left_out")]
    assert made.message.startswith("30 rows: ")
    assert made.state == "ready"


def test_earlier_turns_stay_as_context_in_their_order(desk: Desk) -> None:
    messages = [
        {"role": "system", "content": "S"}, USER, {"role": "assistant", "content": "one", "reasoning_content": "r"},
        {"role": "assistant", "content": "two"}, {"role": "system", "content": "S2"}, USER, USER,
    ]  # fmt: skip
    assert only(desk, {"messages": [*messages, {"role": "assistant", "content": "placeholder"}]}) == messages


def test_null_content_with_tool_calls_is_kept_for_rendering_to_decide(desk: Desk) -> None:
    call = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    called = {"role": "assistant", "content": None, "tool_calls": [call], "function_call": None, "name": None}
    result = {"role": "tool", "tool_call_id": "functions.f:0", "content": "42"}
    expected = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "functions.f:0"},
    ]
    assert only(desk, {"messages": [USER, called, result]}) == expected
    without_key = {key: value for key, value in called.items() if key != "content"}
    assert only(desk, {"messages": [USER, without_key, result]}) == expected


def test_arguments_stay_a_string_or_a_mapping_with_keys_and_numbers_as_written(any_desk: Desk) -> None:
    def line(arguments: str) -> str:
        call = '{"function":{"name":"f","arguments":' + arguments + "}}"
        return (
            '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":['
            + call
            + ']},{"role":"tool","content":"y"}]}'
        )

    mapping = '{"z":1.10,"a":12345678901234567890,"e":1e400,"m":-0,"n":0.1,"t":1E5}'
    made = any_desk.upload((line(mapping) + "\n" + line(json.dumps(mapping))).encode())
    first, second = (body for _, body in any_desk.stored(made))
    assert f'"arguments":{mapping}' in first.messages
    assert json.loads(second.messages)[1]["tool_calls"][0]["function"]["arguments"] == mapping
    with any_desk.ctx.db.read() as s:
        data = prompt_bodies(s, [first.prompt_id, second.prompt_id, 999_999])
        shown = list_prompts(s, made.id).items[0]
    assert set(data) == {first.prompt_id, second.prompt_id}
    arguments = data[first.prompt_id].messages[1]["tool_calls"][0]["function"]["arguments"]
    assert list(arguments) == ["z", "a", "e", "m", "n", "t"]
    assert [str(value) for value in arguments.values()] == ["1.10", "12345678901234567890", "1e400", "-0", "0.1", "1E5"]
    assert isinstance(arguments["z"], SpelledFloat)
    assert arguments["z"] == 1.1
    text = shown.model_dump_json()
    assert '"e":"1e400"' in text  # beyond a double: no number that an HTTP answer could say
    assert "Infinity" not in text


def test_arguments_that_are_not_json_are_a_warning_and_stay_as_they_stand(desk: Desk) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1'}}
    made = desk.rows(
        {
            "messages": [
                USER,
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "content": "y"},
            ]
        }
    )
    assert desk.codes(made) == [(1, "warning", "arguments_not_json")]
    assert desk.messages(made)[0][1]["tool_calls"] == [call]


def test_text_parts_are_joined_with_a_notice(desk: Desk) -> None:
    parts = [{"type": "text", "text": "hi"}, {"type": "text", "text": "there"}]
    made = desk.rows({"messages": [{"role": "user", "content": parts}]})
    assert desk.messages(made) == [[{"role": "user", "content": "hi\nthere"}]]
    assert desk.codes(made) == [(1, "warning", "content_parts_joined")]
    assert only(desk, {"messages": [{"role": "user", "content": parts[:1]}]}) == [USER]


def test_tool_results_that_no_call_waits_for_are_a_warning_and_results_keep_their_order(desk: Desk) -> None:
    one, two = {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}

    def calling(count: int) -> dict[str, Any]:
        calls = [{"function": {"name": "f", "arguments": {"n": at}}} for at in range(count)]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    written = {"role": "assistant", "content": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'}
    made = desk.rows(
        {"messages": [one]},
        {"messages": [USER, calling(2), two, one]},
        {"messages": [USER, calling(1), one, two]},  # one more than asked for
        {"messages": [USER, calling(1), one, USER, two]},  # the call before the last question has its result
        {"messages": [USER, written, one]},  # a call as the model wrote it
    )
    assert [(line, code) for line, _, code in desk.codes(made)] == [(line, "tool_without_call") for line in (1, 3, 4)]
    assert desk.messages(made)[1][2:] == [two, one]


def test_tool_result_given_as_a_value_becomes_its_json(desk: Desk) -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    made = desk.upload(json.dumps({"messages": [USER, call, {"role": "tool", "content": {"b": 1, "a": [2]}}]}).encode())
    assert desk.messages(made)[0][2]["content"] == '{"b":1,"a":[2]}'
    assert (1, "warning", "tool_result_encoded") in desk.codes(made)


def tools_of(desk: Desk, tools: object, key: str = "tools") -> tuple[Any, list[str]]:
    made = desk.rows({"prompt": "x", key: tools})
    assert made.rejected == 0, made.errors
    ((_, body),) = desk.stored(made)
    return json.loads(body.tools) if body.tools else None, [code for _, _, code in desk.codes(made)]


def test_tools_are_taken_in_every_shape_and_changes_are_noticed(desk: Desk) -> None:
    function = {"name": "f", "description": "d", "parameters": {"z": 1, "a": None}}
    wrapped = {"type": "function", "function": function}
    assert tools_of(desk, [wrapped]) == ([wrapped], [])
    assert tools_of(desk, json.dumps([wrapped])) == ([wrapped], [])
    assert tools_of(desk, [function]) == ([wrapped], ["tool_wrapped"])
    assert tools_of(desk, function) == ([wrapped], ["tool_wrapped"])
    assert tools_of(desk, [{"type": "function", **function}]) == ([wrapped], ["tool_wrapped"])
    assert tools_of(desk, [json.dumps(wrapped)]) == ([wrapped], [])
    assert tools_of(desk, [function], "functions") == ([wrapped], ["tool_wrapped"])
    assert tools_of(desk, json.dumps([function]), "oai_tools") == ([wrapped], ["tool_wrapped"])
    for nothing in (None, [], {}, "", " ", "[]", "null"):
        assert tools_of(desk, nothing) == (None, [])


def test_tools_keep_key_order_and_number_spelling(desk: Desk) -> None:
    tools = '[{"type":"function","function":{"parameters":{"b":{"minimum":1.0,"maximum":1e3},"a":{}},"name":"f"}}]'
    made = desk.upload(('{"prompt":"x","tools":' + tools + "}").encode())
    assert desk.stored(made)[0][1].tools == tools
    made = desk.rows({"prompt": "x", "tools": tools})
    assert desk.stored(made)[0][1].tools == tools


def test_sharegpt_calls_and_results_become_tool_turns(desk: Desk) -> None:
    call = {"name": "f", "arguments": {"x": 1}}
    expected = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]},
        {"role": "tool", "content": "42"},
    ]
    turns = [
        {"from": "human", "value": "hi"},
        {"from": "function_call", "value": json.dumps(call)},
        {"from": "observation", "value": "42"},
    ]
    assert only(desk, {"conversations": turns}) == expected
    hermes = [
        {"from": "human", "value": "hi"},
        {"from": "gpt", "value": f"<tool_call>\n{json.dumps(call)}\n</tool_call>"},
        {"from": "tool", "value": "<tool_response>\n42\n</tool_response>"},
    ]
    assert only(desk, {"conversations": hermes}) == expected
    unreadable = [hermes[0], {"from": "gpt", "value": "<tool_call>{bad</tool_call>"}, hermes[0]]
    assert only(desk, {"conversations": unreadable})[1]["content"] == "<tool_call>{bad</tool_call>"


def test_legacy_function_call_becomes_a_tool_call(desk: Desk) -> None:
    turns = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    made = desk.rows({"messages": turns})
    assert desk.messages(made)[0][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "1", "name": "f"},
    ]
    assert desk.codes(made) == [(1, "warning", "function_call_converted")]


def test_conversation_that_starts_with_the_answerer_is_kept_with_a_warning(desk: Desk) -> None:
    made = desk.rows({"conversations": [{"from": "gpt", "value": ""}, {"from": "human", "value": "x"}]})
    assert [code for _, _, code in desk.codes(made)] == ["content_empty", "starts_with_assistant"]
    assert [m["role"] for m in desk.messages(made)[0]] == ["assistant", "user"]


def test_duplicate_ids_are_kept_and_warned_of(desk: Desk) -> None:
    made = desk.rows({"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}, {"id": "b", "prompt": "z"})
    assert desk.codes(made) == [(2, "warning", "duplicate_id")]
    assert [prompt.source_id for prompt, _ in desk.stored(made)] == ["a", "a", "b"]


def test_long_ids_and_categories_are_shortened_with_a_warning(any_desk: Desk) -> None:
    made = any_desk.rows({"id": "i" * 400, "category": "ü" * 200, "prompt": "x\x00\ny" + "😀" * 500})
    ((prompt, _),) = any_desk.stored(made)
    assert (len(prompt.source_id), len(prompt.category)) == (300, 120)
    assert prompt.preview == "x y" + "😀" * 197
    assert [code for _, _, code in any_desk.codes(made)] == ["id_shortened", "category_shortened"]
    assert any_desk.messages(made)[0][0]["content"].startswith("x\x00\n")
