"""Calls as generated: names, raw arguments, the place of the first error, and never a repair."""

import json

import pytest

from inference.tokens.ids import as_ids
from inference.tokens.payloads.jsontext import JsonError, JsonValue, Number, RawText, read_whole
from inference.tokens.pieces import pieces
from inference.tokens.schema import check_call
from inference.tokens.toolcalls import IdPlaces, ToolCall, read_call, read_calls, read_payload, token_at
from tests.support.families import CLOSED, Family

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


def spelled(family: Family, text: str) -> list[int]:
    """The text in ordinary ids, one for each byte: no token of its own in it."""
    return [
        number
        for byte in text.encode()
        for number in [family.tokenizer.vocabulary.id_of(chr(byte))]
        if number is not None
    ]


def test_inner_delimiters_act_by_id_and_never_by_their_text(families: dict[str, Family]) -> None:
    glm = families["glm45"]
    tag = spelled(glm, "</arg_value>")
    assert len(tag) == len("</arg_value>")
    ids = glm.ids("f\n<arg_key>a</arg_key>\n<arg_value>x") + tag + glm.ids("y</arg_value>\n")
    (call,) = read_calls(glm.bound, glm.tokenizer, ids)
    assert (call.name, call.value, call.valid) == ("f", {"a": "x</arg_value>y"}, True)
    found = read_payload(glm.bound, glm.tokenizer, as_ids(ids))
    assert found.marks is not None
    assert [mark[2] for mark in found.marks] == ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]
    assert all(found.text[start:end] == text for start, end, text in found.marks)


@pytest.mark.parametrize(
    "name", ["glm45", "hunyuan", "magistral", "kimi_k2", "deepseek_r1", "gpt_oss", "qwen3", "step3"]
)
def test_a_payload_is_the_text_of_its_ids_with_every_delimiter_in_its_place(
    families: dict[str, Family], name: str
) -> None:
    family = families[name]
    bound = family.bound
    half = family.ids("🦙")[:1] + family.ids("é")[-1:]
    inner = [bound.ids[text] for text in bound.inner_ids.values()]
    ids: list[int] = [*half, *family.ids("ü f"), *half]
    for number in [*inner, *([bound.separator_id] * 2 if bound.separator_id is not None else []), *inner]:
        ids += [number, *half, *family.ids(" 1🦙"), *half]
    found = read_payload(bound, family.tokenizer, as_ids(ids))
    assert found.text == family.tokenizer.decode(ids)
    assert len(found.marks or ()) == 2 * len(inner)
    assert (found.marks is None) is (not inner)
    for start, end, text in found.marks or ():
        assert found.text[start:end] == text
    if bound.separator_id is None:
        assert found.parts == (found.text,)
    else:
        at = ids.index(bound.separator_id)
        assert found.parts == (family.tokenizer.decode(ids[:at]), family.tokenizer.decode(ids[at + 1 :]))
        assert found.text[found.offset :] == found.parts[1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3", '{"name":"f","arguments":{"x":1}}'),
        ("hermes", '{"name":"f","arguments":{"x":1}}'),
        ("qwen3_coder", "\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n"),
        ("qwen35", "\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n"),
        ("nemotron", "\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n"),
        ("kimi_k2", 'functions.f:0<|tool_call_argument_begin|>{"x":1}'),
        ("deepseek_r1", 'function<｜tool▁sep｜>f\n```json\n{"x":1}\n```'),
        ("deepseek_v3", 'function<｜tool▁sep｜>f\n```json\n{"x":1}\n```'),
        ("deepseek_v31", 'f<｜tool▁sep｜>{"x":1}'),
        ("deepseek_v32", '\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="x" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'),
        ("glm45", "f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n"),
        ("hunyuan", "f<tool_sep>\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n"),
        ("minimax_m2", '\n<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>\n'),
        ("step3", 'function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="x">1</steptml:parameter></steptml:invoke>'),
        ("magistral", 'f[CALL_ID]123456789[ARGS]{"x":1}'),
        ("magistral", '[{"name":"f","arguments":{"x":1}}]'),
        ("llama3", '{"name":"f","parameters":{"x":1}}'),
        ("llama3", "[f(x=1)]"),
        ("gpt_oss", 'commentary to=functions.f <|constrain|>json<|message|>{"x":1}'),
    ],
)  # fmt: skip
def test_every_family_reads_its_own_way_of_calling(families: dict[str, Family], name: str, text: str) -> None:
    tools = [{"name": "f", "parameters": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}}]
    (call,) = read_calls(families[name].bound, families[name].tokenizer, families[name].ids(text), tools)
    assert (call.name, call.value, call.valid, call.note) == ("f", {"x": "1"}, True, None)
    assert check_call(call, tools) == []


SCHEMAS: dict[str, dict] = {
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "text": {"type": "string"},
    "nothing": {"type": "null"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "map": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "either": {"type": ["integer", "null"]},
    "any_of": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "one_of": {"oneOf": [{"type": "boolean"}, {"type": "array"}]},
    "nullable": {"type": "integer", "nullable": True},
    "enum": {"type": "string", "enum": ["UTC", "CET"]},
    "numbers": {"enum": [1, 2.5, None, True]},
    "unknown": {"type": "date"},
    "open": {},
    "odd": {"type": 5, "enum": "x", "anyOf": True},
}


def kinds(key: str, value: JsonValue) -> list[str]:
    tools = [{"name": "f", "parameters": {"properties": SCHEMAS}}]
    return [error.code for error in check_call(ToolCall("f", "", value={key: value}), tools)]


@pytest.mark.parametrize(
    ("key", "fits", "misfits"),
    [
        (
            "whole",
            ["1", " -7\n", "12345678901234567890", "1.0"],
            ["1.5", "x", "", "true", "None", "1e400", '"1"', "[1]"],
        ),
        ("number", ["1", "-2.50", "1e400", "0.1"], ["x", "NaN", "Infinity", "None", "1,5"]),
        ("flag", ["true", "false", "True", " False "], ["yes", "1", "None", ""]),
        ("text", ["", "1", "null", "<b>&amp;", '"x', "{"], []),
        ("nothing", ["null", "None"], ["", "0", "nil"]),
        ("list", ["[]", "[1, 2]", "[1,]"], ["1", '["x"]', "[1.5]", "(", "x"]),
        ("map", ['{"a": 1}', "{'a': 1}"], ["{}", '{"a": "x"}', "[1]", "{'a': 1"]),
        ("either", ["1", "null", "None"], ["x", "true"]),
        ("any_of", ["1", "null"], ["x", "1.5"]),
        ("one_of", ["true", "[1]"], ["1", "x"]),
        ("nullable", ["1", "null", "None"], ["x"]),
        ("enum", ["UTC", " CET\n"], ["utc", "1", '"UTC']),
        ("numbers", ["1", "1.0", "2.50", "null", "true"], ["3", "x", "false"]),
        ("unknown", ["2024-01-01", "1"], []),
        ("open", ["anything", ""], []),
        ("odd", ["anything", "1"], []),
    ],
)
def test_bare_text_fits_where_one_reading_of_it_does(key: str, fits: list[str], misfits: list[str]) -> None:
    assert {text: kinds(key, RawText(text)) for text in fits} == {text: [] for text in fits}
    found = {text: kinds(key, RawText(text)) for text in misfits}
    assert all(codes and set(codes) <= {"tool_argument_type", "tool_argument_missing"} for codes in found.values()), (
        found
    )


def test_bare_text_of_the_right_type_is_told_what_is_wrong_inside() -> None:
    assert kinds("map", RawText("{}")) == ["tool_argument_missing"]
    assert kinds("list", RawText('["x"]')) == ["tool_argument_type"]
    assert kinds("map", RawText("7")) == ["tool_argument_type"]


def test_numbers_of_an_enum_are_compared_as_numbers() -> None:
    assert kinds("numbers", Number("2.50")) == []
    assert kinds("numbers", Number("1e400")) == ["tool_argument_type"]
    assert kinds("numbers", Number("9" * 5000)) == ["tool_argument_type"]


def cited(family: Family, output: str, tools: list[dict] | None = None, finish: str = "stop") -> list[tuple[str, str]]:
    ids = family.ids(output)
    flags = family.inspect(output, CLOSED, finish, tools=tools).flags
    return [(flag.code, family.tokenizer.decode(ids[flag.start : flag.end])) for flag in flags]


def test_each_fault_of_several_calls_cites_its_own_ids(families: dict[str, Family]) -> None:
    minimax = families["minimax_m2"]
    tools = [{"name": "f", "parameters": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}}]
    good = '<invoke name="f"><parameter name="x">1</parameter></invoke>'
    wrong = '<invoke name="f"><parameter name="x">Q</parameter></invoke>'
    extra = '<invoke name="f"><parameter name="x">1</parameter><parameter name="y">Z</parameter></invoke>'
    unknown = '<invoke name="g"><parameter name="y">1</parameter></invoke>'
    lacking = '<invoke name="f"></invoke>'
    broken = '<invoke name="f"><parameter name="x">1</invoke>'
    output = f"<minimax:tool_call>{good}{wrong}{extra}{unknown}{lacking}{broken}</minimax:tool_call>[e~["
    found = cited(minimax, output, tools)
    assert [code for code, _ in found] == [
        "tool_argument_type",
        "tool_argument_unknown",
        "tool_unknown",
        "tool_argument_missing",
        "tool_arguments_invalid",
    ]
    assert found[0][1] == "Q"
    assert found[1][1] == "Z"
    assert '<parameter name="y">1</parameter>' in found[2][1]
    assert found[4][1].lstrip(">").startswith("<")


def test_separate_faults_of_one_call_are_separate_flags(kimi: Family) -> None:
    section = "<|tool_calls_section_begin|><|tool_call_begin|>{}<|tool_call_end|><|tool_calls_section_end|><|im_end|>"
    text = 'functions.get_time:0<|tool_call_argument_begin|>{"zone":"UTC","n":"one"}'
    found = cited(kimi, section.format(text), TOOLS)
    assert {code for code, _ in found} == {"tool_argument_unknown", "tool_argument_missing", "tool_argument_type"}
    assert [code for code, _ in cited(kimi, section.format(text.replace("get_time", "get_tme")), TOOLS)] == [
        "tool_unknown"
    ]


def test_a_call_cut_off_at_the_limit_is_truncated_first_and_malformed_after(families: dict[str, Family]) -> None:
    for name, output in {
        "qwen3": '<tool_call>{"name":"f","arguments":{"x',
        "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=x>\n1",
        "glm45": "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1",
        "minimax_m2": '<minimax:tool_call><invoke name="f"><parameter name="x">1',
        "magistral": '[TOOL_CALLS]f[ARGS]{"x": 1',
    }.items():
        codes = [code for code, _ in cited(families[name], output, finish="length")]
        assert codes[0] == "truncated", name
        assert {"tool_json_invalid", "tool_arguments_invalid"} & set(codes[1:]), name


def test_an_empty_call_says_what_its_family_misses(families: dict[str, Family]) -> None:
    assert cited(families["qwen3"], "<tool_call></tool_call><|im_end|>")[0][0] == "tool_json_invalid"
    assert cited(families["glm45"], "<tool_call></tool_call><|user|>")[0] == (
        "tool_name_unreadable",
        "<tool_call></tool_call>",
    )


def test_the_tools_of_gpt_oss_itself_are_not_looked_for_among_the_prompts(families: dict[str, Family]) -> None:
    gpt_oss = families["gpt_oss"]
    (call,) = read_calls(gpt_oss.bound, gpt_oss.tokenizer, gpt_oss.ids("analysis to=python code<|message|>print(1)"))
    assert (call.name, call.valid, check_call(call, TOOLS)) == ("python", True, [])
    output = "<|channel|>commentary to={} code<|message|>print(1)<|call|>"
    assert not [code for code in gpt_oss.codes(output.format("python"), tools=TOOLS) if code.startswith("tool_")]
    assert {"tool_unknown", "tool_json_invalid"} <= set(gpt_oss.codes(output.format("functions.nope"), tools=TOOLS))


@pytest.mark.parametrize("text", ["aé🦙b", "🦙", "", "a\ufffdb", "x" * 50 + "é"])
def test_the_id_that_holds_a_character_is_found(qwen3: Family, text: str) -> None:
    ids = qwen3.ids(text)
    broken = [*ids, qwen3.ids("🦙")[0], *ids, qwen3.ids("é")[-1], *ids]
    for numbers in (ids, broken):
        whole = qwen3.tokenizer.decode(numbers)
        shown = pieces(qwen3.tokenizer, numbers)
        places = IdPlaces(qwen3.tokenizer, numbers)
        for position in range(len(whole)):
            assert places.find(position) == next(piece.index for piece in shown if piece.start <= position < piece.end)
        assert places.find(len(whole) + 5) == max(len(numbers) - 1, 0)


def test_the_id_of_a_character_is_the_one_it_begins_in(qwen3: Family) -> None:
    ids = qwen3.ids("a") + qwen3.ids("🦙") + qwen3.ids("b")
    assert len(ids) > 3  # the llama takes several
    places = IdPlaces(qwen3.tokenizer, ids)
    assert [places.find(position) for position in range(3)] == [0, 1, len(ids) - 1]
