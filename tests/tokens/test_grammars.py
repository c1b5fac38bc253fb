"""Each family's way of writing a call: read whole, or kept raw with the place of its first error."""

from collections.abc import Callable

import pytest

from inference.tokens.payloads.argpairs import read_glm, read_hunyuan
from inference.tokens.payloads.deepseek import read_deepseek_v3, read_deepseek_v31
from inference.tokens.payloads.dsml import read_dsml
from inference.tokens.payloads.harmony import read_harmony
from inference.tokens.payloads.hermes import read_hermes
from inference.tokens.payloads.jsontext import Number, RawText
from inference.tokens.payloads.kimi import read_kimi
from inference.tokens.payloads.llama3 import read_llama3
from inference.tokens.payloads.mistral import read_mistral
from inference.tokens.payloads.payload import Payload, ToolCall
from inference.tokens.payloads.xmlcall import read_function_xml, read_invoke_xml, read_step3
from tests.support.payloads import payload

Reader = Callable[[Payload], tuple[ToolCall, ...]]
ARGUMENTS, NAME, JSON = "tool_arguments_invalid", "tool_name_unreadable", "tool_json_invalid"
INVOKE_F = '<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>'
FUNCTION_F = "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>"
STEP_F = '<steptml:invoke name="f"><steptml:parameter name="a">1</steptml:parameter></steptml:invoke>'
DSML_F = '<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n</｜DSML｜invoke>'
PAIR = "⟦<arg_key>⟧a⟦</arg_key>⟧⟦<arg_value>⟧1⟦</arg_value>⟧"


def brief(calls: tuple[ToolCall, ...]) -> list[tuple[str | None, dict | None, bool]]:
    return [(call.name, call.value, call.valid) for call in calls]


def texts(calls: tuple[ToolCall, ...]) -> list[str | None]:
    return [call.name for call in calls if call.valid]


def fault(calls: tuple[ToolCall, ...], text: str) -> tuple[str, str]:
    """The first error's code, and the text from its position on."""
    error = next(call.error for call in calls if call.error)
    return error.code, text[error.position :]


# Tags around parameters


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (read_function_xml, f"\n{FUNCTION_F}\n", {"a": "1"}),
        (read_function_xml, "<function=f>\n</function>", {}),
        (read_function_xml, "<function=f><parameter=a>1</parameter></function>", {"a": "1"}),
        (read_function_xml, "<function=f>\n<parameter=a>\n\n  x\n\n</parameter>\n</function>", {"a": "\n  x\n"}),
        (read_function_xml, "<function=f>\n<parameter=a>\nif a < b && c > d: &lt;x&gt;\n</parameter>\n</function>", {"a": "if a < b && c > d: &lt;x&gt;"}),
        (read_function_xml, "<function=f>\n<parameter=a>\n</function> <b>\n</parameter>\n</function>", {"a": "</function> <b>"}),
        (read_function_xml, "<function=f>\n<parameter=a>\n12345678901234567890\n</parameter>\n<parameter=b>\n1e400\n</parameter>\n</function>", {"a": "12345678901234567890", "b": "1e400"}),
        (read_invoke_xml, INVOKE_F, {"a": "1"}),
        (read_invoke_xml, "<invoke name='f'></invoke>", {}),
        (read_invoke_xml, '<invoke name="f"/>', {}),
        (read_invoke_xml, '<invoke  name = "f" >\n<parameter name="a"> 1 \n</parameter></invoke>', {"a": " 1 \n"}),
        (read_invoke_xml, '<invoke name="f"><parameter name="a"><b>&amp;</b></parameter></invoke>', {"a": "<b>&amp;</b>"}),
        (read_step3, f"function⟦<sep>⟧{STEP_F}", {"a": "1"}),
        (read_dsml, f"\n{DSML_F}\n", {"a": "x"}),
        (read_dsml, '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">[1, 2.50]</｜DSML｜parameter></｜DSML｜invoke>', {"a": ["1", "2.50"]}),
        (read_dsml, '<｜DSML｜invoke name="f">\n{"a": 1e400}\n</｜DSML｜invoke>', {"a": "1e400"}),
        (read_dsml, f"><{DSML_F[1:]}</", {"a": "x"}),  # brackets that share an id with the section's markers
    ],
)  # fmt: skip
def test_a_call_in_tags_is_read_to_the_letter(reader: Reader, text: str, value: dict) -> None:
    found = reader(payload(text, "<sep>"))
    assert brief(found) == [("f", value, True)]
    assert found[0].note is None
    span = found[0].span
    assert span is not None
    assert found[0].arguments == payload(text).text[span[0] : span[1]]


def test_values_in_tags_are_bare_text_and_keep_their_places() -> None:
    text = "<function=f>\n<parameter=n>\n0012\n</parameter>\n</function>"
    (call,) = read_function_xml(payload(text))
    assert call.value is not None
    assert type(call.value["n"]) is RawText
    assert text[call.places["n"] :].startswith("0012")
    (typed,) = read_dsml(payload(DSML_F))
    assert typed.value is not None
    assert type(typed.value["a"]) is str  # its tag says it is a text


@pytest.mark.parametrize(
    ("reader", "text", "code", "at"),
    [
        (read_function_xml, "<function=f>\n<parameter=a>\n1\n</function>", ARGUMENTS, "</function>"),
        (read_function_xml, "<function=f>\n<parameter=a>\n1\n<parameter=b>\n2\n</parameter>\n</function>", ARGUMENTS, "<parameter=b>\n2\n</parameter>\n</function>"),
        (read_function_xml, "<function=f>\n<parameter=a>\n1\n</parameter>\n", ARGUMENTS, ""),
        (read_function_xml, "<function=f>\n<parameter=a>\n1", ARGUMENTS, ""),
        (read_function_xml, "<function=f>\n  prose <parameter=a>1</parameter></function>", ARGUMENTS, "prose <parameter=a>1</parameter></function>"),
        (read_function_xml, "<function=f></parameter></function>", ARGUMENTS, "</parameter></function>"),
        (read_function_xml, "<function=f><parameter=>1</parameter></function>", ARGUMENTS, "<parameter=>1</parameter></function>"),
        (read_function_xml, "<function=></function>", NAME, "<function=></function>"),
        (read_function_xml, "<function=f", NAME, "<function=f"),
        (read_function_xml, "  prose", NAME, "prose"),
        (read_function_xml, " ", NAME, " "),
        (read_invoke_xml, '<invoke name="f><parameter name="a">1</parameter></invoke>', NAME, '<invoke name="f><parameter name="a">1</parameter></invoke>'),
        (read_invoke_xml, '<invoke name="f"><parameter>1</parameter></invoke>', ARGUMENTS, "<parameter>1</parameter></invoke>"),
        (read_invoke_xml, '<invoke name="f"><parameter name="a">1</invoke>', ARGUMENTS, "</invoke>"),
        (read_step3, "function⟦<sep>⟧nothing", NAME, "nothing"),
        (read_dsml, '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a">1</｜DSML｜parameter></｜DSML｜invoke>', ARGUMENTS, '<｜DSML｜parameter name="a">1</｜DSML｜parameter></｜DSML｜invoke>'),
        (read_dsml, '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">[1,]</｜DSML｜parameter></｜DSML｜invoke>', ARGUMENTS, "]</｜DSML｜parameter></｜DSML｜invoke>"),
        (read_dsml, '<｜DSML｜invoke name="f">{"a" 1}</｜DSML｜invoke>', JSON, "1}</｜DSML｜invoke>"),
        (read_dsml, '<｜DSML｜invoke name="f">{"a": 1}', ARGUMENTS, ""),
    ],
)  # fmt: skip
def test_a_broken_call_in_tags_is_kept_with_the_place_of_its_first_error(
    reader: Reader, text: str, code: str, at: str
) -> None:
    given = payload(text, "<sep>")
    found = reader(given)
    assert fault(found, given.text) == (code, at)
    assert all(call.value is None for call in found)


def test_a_parameter_given_twice_is_flagged_at_the_second_and_the_last_counts() -> None:
    text = "<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>"
    found = read_function_xml(payload(text))
    assert fault(found, text) == (ARGUMENTS, "<parameter=a>2</parameter></function>")
    assert found[0].value == {"a": "2"}
    assert found[0].arguments == "<parameter=a>1</parameter><parameter=a>2</parameter>"
    text = f"f\n{PAIR}{PAIR}"
    given = payload(text)
    found = read_glm(given)
    assert fault(found, given.text)[0] == ARGUMENTS
    assert found[0].value == {"a": "1"}
    text = '{"name":"f","arguments":{"a":1, "a":2}}'
    found = read_hermes(payload(text))
    assert fault(found, text) == (ARGUMENTS, '"a":2}}')
    assert found[0].value == {"a": "2"}
    text = "[f(a=1, a=2)]"
    found = read_llama3(payload(text))
    assert fault(found, text) == (ARGUMENTS, "a=2)]")
    assert found[0].value == {"a": "2"}


@pytest.mark.parametrize(
    ("reader", "text", "names"),
    [
        (read_invoke_xml, INVOKE_F + "\n" + INVOKE_F.replace('"f"', '"g"'), ["f", "g"]),
        (read_invoke_xml, INVOKE_F + '<invoke name="g"><parameter name="a">1', ["f"]),
        (read_invoke_xml, INVOKE_F + '<invoke name="g">', ["f"]),
        (read_invoke_xml, '<invoke name="g"><parameter name="a">1</invoke>' + INVOKE_F, ["f"]),
        (read_invoke_xml, '<invoke name="g"><parameter name="a">1</parameter>' + INVOKE_F, ["f"]),
        (read_invoke_xml, '<invoke name=""></invoke>' + INVOKE_F, ["f"]),
        (read_invoke_xml, "I will call. " + INVOKE_F + " Done.", ["f"]),
        (read_function_xml, FUNCTION_F + FUNCTION_F + "<function=g>\n<parameter=a>\n", ["f", "f"]),
        (read_step3, f'function⟦<sep>⟧{STEP_F}<steptml:invoke name="g">', ["f"]),
        (read_dsml, DSML_F + DSML_F, ["f", "f"]),
        (read_dsml, '<｜DSML｜invoke name="g">{"a": 1</｜DSML｜invoke>' + DSML_F, ["f"]),
        (read_hermes, '[{"name":"f","arguments":{}},{"name":"g","arguments":{}}]', ["f", "g"]),
        (read_hermes, '[{"name":"f","arguments":{}},{"name":"g","argum', ["f"]),
        (read_hermes, '[{"name":"f","arguments":{}}', ["f"]),
        (read_hermes, '[{"name":"f","arguments":{"p":"C:\\path"}}, {"name":"g","arguments":{}}]', ["g"]),
        (read_hermes, '[{"name":"f","arguments":{}} {"name":"g","arguments":{}}]', ["g"]),
        (read_hermes, '{"name":"f","arguments":{}}\n{"name":"g","arguments":{}}', ["f", "g"]),
        (read_hermes, '{"name":"f","arguments":{"x": , "user":{"name":"Bob"}}}', []),
        (read_llama3, '{"name":"f","parameters":{}}; {"name":"g","parameters":{}}', ["f", "g"]),
        (read_llama3, '{"name":"f","parameters":{}}; {"name":"g","para', ["f"]),
        (read_llama3, '{"name":"f","parameters":{x}}; {"name":"g","parameters":{}}', ["g"]),
        (read_llama3, "[f(a=1), g(b=[1, 'x)']), h()]", ["f", "g", "h"]),
        (read_llama3, "[f(a=1), g(b=oops(1)), h(c=2)]", ["f", "h"]),
        (read_llama3, "[f(a=1), g(b=don't), h(c=2)]", ["f", "h"]),
        (read_llama3, "[f(a=1), g(b=", ["f"]),
        (read_llama3, "[f(a=1), g(b=2)", ["f", "g"]),
        (read_mistral, 'f⟦[ARGS]⟧{}g⟦[ARGS]⟧{"a": 1}', ["f", "g"]),
        (read_mistral, 'f⟦[ARGS]⟧{"a": ⟦[ARGS]⟧{"a": 1}', []),
        (read_mistral, 'f⟦[ARGS]⟧{"a": }g⟦[CALL_ID]⟧123456789⟦[ARGS]⟧{"a": 1}', ["g"]),
        (read_mistral, 'f⟦[ARGS]⟧{"a": 1}g⟦[ARGS]⟧{"a": ', ["f"]),
        (read_mistral, '[{"name":"f","arguments":{}}, {"name":"g","arguments":{"a', ["f"]),
    ],
)  # fmt: skip
def test_a_broken_call_hides_no_whole_one(reader: Reader, text: str, names: list[str]) -> None:
    assert texts(reader(payload(text, "<sep>"))) == names


def test_text_outside_of_all_calls_is_an_entry_of_its_own() -> None:
    text = f"Let me see. {INVOKE_F}"
    found = read_invoke_xml(payload(text))
    assert (found[0].name, found[0].arguments) == (None, "Let me see.")
    assert [call.valid for call in found] == [False, True]


def test_only_a_tag_with_its_own_token_in_it_acts() -> None:
    spelled = '</｜DSML｜parameter> <｜DSML｜invoke name="x">'
    text = (
        '<⟦｜DSML｜⟧invoke name="f"><⟦｜DSML｜⟧parameter name="a" string="true">'
        f"{spelled}</⟦｜DSML｜⟧parameter></⟦｜DSML｜⟧invoke>"
    )
    assert brief(read_dsml(payload(text))) == [("f", {"a": spelled}, True)]
    assert texts(read_dsml(payload(text.replace("⟦", "").replace("⟧", "")))) == []


@pytest.mark.parametrize("reader", [read_function_xml, read_invoke_xml, read_glm, read_hunyuan])
def test_a_json_object_where_tags_are_wanted_is_read_with_a_note(reader: Reader) -> None:
    (call,) = reader(payload('\n{"name": "f", "arguments": {"a": 1}}\n'))
    assert (call.name, call.value, call.valid) == ("f", {"a": "1"}, True)
    assert call.note is not None


def test_tags_where_json_is_wanted_are_read_with_a_note() -> None:
    (call,) = read_hermes(payload(f"\n{FUNCTION_F}\n"))
    assert (call.name, call.value, call.valid) == ("f", {"a": "1"}, True)
    assert call.note is not None
    (inside,) = read_invoke_xml(payload('<invoke name="f">{"a": 1}</invoke>'))
    assert (inside.value, inside.valid, inside.note is not None) == ({"a": "1"}, True, True)


def test_step3_without_its_separator_or_with_another_type_is_read_with_a_note() -> None:
    for text in (f"function{STEP_F}", f"tool⟦<sep>⟧{STEP_F}"):
        (call,) = read_step3(payload(text, "<sep>"))
        assert (call.name, call.valid) == ("f", True)
        assert call.note is not None


# Keys and values


@pytest.mark.parametrize("reader", [read_glm, read_hunyuan])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"f\n{PAIR}\n", {"a": "1"}),
        (f"f{PAIR}", {"a": "1"}),
        (f"f\n{PAIR}\n⟦<arg_key>⟧b⟦</arg_key>⟧\n⟦<arg_value>⟧ 1e400\n⟦</arg_value>⟧\n", {"a": "1", "b": " 1e400\n"}),
        ("f", {}),
        ("f\n", {}),
        ("f⟦<arg_key>⟧a⟦</arg_key>⟧⟦<arg_value>⟧</arg_value> & <arg_key> < 2⟦</arg_value>⟧", {"a": "</arg_value> & <arg_key> < 2"}),
        ("f<arg_key>a</arg_key><arg_value>x</arg_value>", {"a": "x"}),  # no tokens for them in this vocabulary
    ],
)  # fmt: skip
def test_pairs_are_read_to_the_letter(reader: Reader, text: str, value: dict) -> None:
    found = reader(payload(text))
    assert brief(found) == [("f", value, True)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"f⟦<tool_sep>⟧\n{PAIR}", {"a": "1"}),
        ("f<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n", {"a": "1"}),
        ("f⟦<tool_sep>⟧", {}),
        ("f<tool_sep:x><arg_key:x>a</arg_key:x><arg_value:x>1</arg_value:x>", {"a": "1"}),
        ("f⟦<arg_key:x>⟧a⟦</arg_key:x>⟧⟦<arg_value:x>⟧1⟦</arg_value:x>⟧", {"a": "1"}),
    ],
)
def test_hunyuan_with_and_without_its_separator(text: str, value: dict) -> None:
    for separator in ("<tool_sep>", None):
        assert brief(read_hunyuan(payload(text, separator))) == [("f", value, True)]


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("f⟦<arg_key>⟧a", ARGUMENTS, ""),
        ("f⟦<arg_key>⟧a⟦</arg_key>⟧⟦<arg_value>⟧1", ARGUMENTS, ""),
        ("f⟦<arg_key>⟧a⟦</arg_key>⟧", ARGUMENTS, ""),
        ("f⟦<arg_key>⟧a⟦<arg_value>⟧1⟦</arg_value>⟧", ARGUMENTS, "<arg_value>1</arg_value>"),
        ("f⟦<arg_key>⟧a⟦</arg_key>⟧ x ⟦<arg_value>⟧1⟦</arg_value>⟧", ARGUMENTS, "x <arg_value>1</arg_value>"),
        ("f⟦<arg_key>⟧ ⟦</arg_key>⟧⟦<arg_value>⟧1⟦</arg_value>⟧", ARGUMENTS, " </arg_key><arg_value>1</arg_value>"),
        (f"f{PAIR} tail", ARGUMENTS, "tail"),
        (f"f{PAIR}⟦</arg_value>⟧", ARGUMENTS, "</arg_value>"),
        (PAIR, NAME, "<arg_key>a</arg_key><arg_value>1</arg_value>"),
        (" I call f\n" + PAIR, NAME, "I call f\n<arg_key>a</arg_key><arg_value>1</arg_value>"),
        ("", NAME, ""),
    ],
)
def test_broken_pairs_are_kept_with_the_place_of_the_first_error(text: str, code: str, at: str) -> None:
    given = payload(text)
    for reader in (read_glm, read_hunyuan):
        found = reader(given)
        assert fault(found, given.text) == (code, at)
        raw = found[0].arguments
        assert raw is not None
        assert raw in given.text


def test_a_name_of_several_words_is_read_where_the_prompt_offers_such_a_tool() -> None:
    assert read_glm(payload("my tool", tools=["my tool"]))[0].name == "my tool"
    assert read_glm(payload("my tool"))[0].name is None


# JSON


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        (
            '{"name":"f","arguments":{"p":"C:\\path"}}',
            "f",
            '{"p":"C:\\path"}}',
        ),  # where it breaks inside, all to the end
        ('{"name":"f","arguments":{"x":1}', "f", '{"x":1}'),
        ('{"name":"f","arguments":{"x":1}} and more', "f", '{"x":1}'),
        ('{"name":"f","argu', "f", None),
        ('{"arguments":{"x":1', None, '{"x":1'),
        ('{"name":"\\ud800","arguments":{}}', None, "{}"),  # half a character is no name
    ],
)
def test_what_can_be_read_of_broken_json_is_shown(text: str, name: str | None, arguments: str | None) -> None:
    (call,) = read_hermes(payload(text))
    assert (call.name, call.arguments, call.valid, call.value) == (name, arguments, False, call.value)


def test_the_place_of_a_constant_that_json_lacks_is_its_own() -> None:
    text = '{"name":"f","arguments":{"t":"NaN \\" Infinity","x":[1,-Infinity]}}'
    assert fault(read_hermes(payload(text)), text) == (JSON, "-Infinity]}}")


def test_several_objects_without_a_list_are_noted_where_the_family_does_not_write_them_so() -> None:
    text = '{"name":"f","parameters":{}};{"name":"g","parameters":{}}'
    assert all(call.note for call in read_hermes(payload(text)))
    assert not any(call.note for call in read_llama3(payload(text)))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("f⟦[ARGS]⟧{}", "f", {}),
        ('f⟦[CALL_ID]⟧a1b2c3d4e⟦[ARGS]⟧{"x": 1.50}', "f", {"x": "1.50"}),
        ('f[ARGS]{"x": 1}', "f", {"x": "1"}),
        ('f⟦[ARGS]⟧{"x": "[ARGS]{"}', "f", {"x": "[ARGS]{"}),
        (' [{"name": "f", "arguments": {"x": 1}, "id": "a1b2c3d4e"}]', "f", {"x": "1"}),
        ('{"name": "f", "arguments": {"x": 1}}', "f", {"x": "1"}),
    ],
)
def test_mistral_calls(text: str, name: str, value: dict) -> None:
    assert brief(read_mistral(payload(text))) == [(name, value, True)]


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("f⟦[ARGS]⟧", ARGUMENTS, ""),
        ("f⟦[ARGS]⟧{x}", JSON, "x}"),
        ("⟦[ARGS]⟧{}", NAME, "[ARGS]{}"),
        ("⟦[CALL_ID]⟧1⟦[ARGS]⟧{}", NAME, "[CALL_ID]1[ARGS]{}"),
        ("a b⟦[ARGS]⟧{}", NAME, "a b[ARGS]{}"),
        ("f⟦[ARGS]⟧{} tail", JSON, "tail"),
        ("prose", NAME, "prose"),
        ("", NAME, ""),
    ],
)
def test_broken_mistral_calls(text: str, code: str, at: str) -> None:
    given = payload(text)
    assert fault(read_mistral(given), given.text) == (code, at)


def test_mistral_arguments_spelled_tag_is_text_where_the_token_exists() -> None:
    given = payload('f[ARGS]⟦[ARGS]⟧{"x": 1}')
    assert read_mistral(given)[0].error is not None  # the name is `f[ARGS]`, which is none
    (call,) = read_mistral(payload('f{"x": 1}'))
    assert (call.name, call.valid, call.note is not None) == ("f", True, True)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("[f()]", "f", {}),
        ("[ f( a = 1 , b=-2.50,\n c=1_000 ) ]", "f", {"a": "1", "b": "-2.50", "c": "1_000"}),
        ("[f(a=12345678901234567890, b=1e400)]", "f", {"a": "12345678901234567890", "b": "1e400"}),
        ("""[f(a="x\\n\\"y\\"", b='it\\'s', c=r"\\d", d='''a'b''')]""", "f", {"a": 'x\n"y"', "b": "it's", "c": "\\d", "d": "a'b"}),
        ("[f(a=[1, 'x', (2, 3)], b={'k': None, 'l': True}, c=(1), d=(1,), e=[])]", "f", {"a": ["1", "x", ["2", "3"]], "b": {"k": None, "l": True}, "c": "1", "d": ["1"], "e": []}),
        ("[f(a=true, b=null)]", "f", {"a": True, "b": None}),
        ("[a.b(x=1),]", "a.b", {"x": "1"}),
        ("f(x='\\x41\\u00e9\\101\\q')", "f", {"x": "AéA\\q"}),
        ('brave_search.call(query="x")', "brave_search", {"query": "x"}),
    ],
)  # fmt: skip
def test_calls_in_python(text: str, name: str, value: dict) -> None:
    assert brief(read_llama3(payload(text))) == [(name, value, True)]


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("[f(1)]", ARGUMENTS, "1)]"),
        ("[f(a)]", ARGUMENTS, "a)]"),
        ("[f(a=b)]", ARGUMENTS, "b)]"),
        ("[f(a=1 b=2)]", ARGUMENTS, "b=2)]"),
        ("[f(a='x)]", ARGUMENTS, "'x)]"),
        ("[f(a=[1, 2)]", ARGUMENTS, ")]"),
        ("[f(a={1: 2, 3})]", ARGUMENTS, "})]"),
        ("[f(a=1", ARGUMENTS, ""),
        ("[f(a=1)", NAME, ""),
        ("[f(a=1)] tail", NAME, "tail"),
        ("[f(a=1), 5]", NAME, "5]"),
        ("[f(a=0x1F)]", ARGUMENTS, "0x1F)]"),
        (f"[f(a={'[' * 200})]", ARGUMENTS, "[" * 99 + ")]"),
        ("import os\nprint(1)", NAME, "import os\nprint(1)"),
    ],
)
def test_broken_calls_in_python(text: str, code: str, at: str) -> None:
    assert fault(read_llama3(payload(text)), text) == (code, at)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('{"name": "f", "parameters": {"x": 1}}', "f", {"x": "1"}),
        ('{"name": "f", "arguments": {"x": 1}}', "f", {"x": "1"}),
        ('{"type": "function", "name": "f", "parameters": {}};', "f", {}),
    ],
)
def test_llama_calls_in_json(text: str, name: str, value: dict) -> None:
    assert brief(read_llama3(payload(text))) == [(name, value, True)]


# DeepSeek's two dialects


V3 = 'function⟦<sep>⟧f\n```json\n{"a": 1.0}\n```'
V31 = 'f⟦<sep>⟧{"a": 1.0}'


@pytest.mark.parametrize(
    ("reader", "text", "noted"),
    [
        (read_deepseek_v3, V3, False),
        (read_deepseek_v3, V31, True),
        (read_deepseek_v31, V31, False),
        (read_deepseek_v31, V3, True),
        (read_deepseek_v31, 'f⟦<sep>⟧\n```json\n{"a": 1.0}\n```', True),
        (read_deepseek_v31, 'f{"a": 1.0}', True),
        (read_deepseek_v3, 'function⟦<sep>⟧f\n```json\n{"a": 1.0}', True),  # the fence is not closed
        (read_deepseek_v3, 'function⟦<sep>⟧f\n```\n{"a": 1.0}\n```\n', False),
        (read_deepseek_v3, 'function⟦<sep>⟧f ```json{"a": 1.0}```', False),
    ],
)
def test_either_dialect_of_deepseek_is_read_and_the_other_noted(reader: Reader, text: str, noted: bool) -> None:
    (call,) = reader(payload(text, "<sep>"))
    assert (call.name, call.arguments, call.value, call.valid) == ("f", '{"a": 1.0}', {"a": Number("1.0")}, True)
    assert (call.note is not None) is noted


@pytest.mark.parametrize("reader", [read_deepseek_v3, read_deepseek_v31])
@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("function⟦<sep>⟧f\n```json\n{x}\n```", JSON, "x}\n```"),
        ("function⟦<sep>⟧f\n```json\n\n```", ARGUMENTS, "```"),
        ('f⟦<sep>⟧{"a": ', JSON, ""),
        ("f⟦<sep>⟧", ARGUMENTS, ""),
        ("prose", NAME, "prose"),
        ("a b⟦<sep>⟧c d", NAME, "c d"),
        ("function⟦<sep>⟧two words\n```json\n{}\n```", NAME, "two words\n```json\n{}\n```"),
    ],
)
def test_broken_calls_of_deepseek(reader: Reader, text: str, code: str, at: str) -> None:
    given = payload(text, "<sep>")
    found_code, found_at = fault(reader(given), given.text)
    assert (found_code, found_at.lstrip()) == (code, at)


# Harmony's headers


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (" assistant to=functions.get_time<|channel|>commentary <|constrain|>json", "get_time"),
        ("<|channel|>commentary to=functions.get_time <|constrain|>json", "get_time"),
        ("commentary to=functions.get_time<|constrain|>json", "get_time"),
        ("commentary   to = functions.get_time  code", "get_time"),
        ("to=functions.get-time", "get-time"),
        ("commentary to=functions.a.b json", "a.b"),
        ("analysis to=functions.f<|channel|>commentary to=functions.f json", "f"),
    ],
)
def test_harmony_recipients(header: str, name: str) -> None:
    (call,) = read_harmony(payload(header + '⟦<|message|>⟧{"tz": "UTC"}', "<|message|>"))
    assert (call.name, call.value, call.valid, call.note) == (name, {"tz": "UTC"}, True, None)


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("commentary⟦<|message|>⟧{}", NAME, "commentary<|message|>{}"),
        ("commentary to=⟦<|message|>⟧{}", NAME, "commentary to=<|message|>{}"),
        ("commentary to=functions.⟦<|message|>⟧{}", NAME, "functions.<|message|>{}"),
        ("to=functions.f<|channel|>commentary to=functions.g⟦<|message|>⟧{}", NAME, "functions.g<|message|>{}"),
        ("commentary to=functions.f⟦<|message|>⟧", ARGUMENTS, ""),
        ('commentary to=functions.f⟦<|message|>⟧{"a": 1', JSON, ""),
        ("commentary to=functions.f", NAME, "commentary to=functions.f"),
    ],
)
def test_broken_harmony_calls(text: str, code: str, at: str) -> None:
    given = payload(text, "<|message|>")
    assert fault(read_harmony(given), given.text) == (code, at)


def test_harmony_tools_of_the_family_take_any_text_and_no_schema_is_asked() -> None:
    for recipient, body in (("python", "print(1)\n"), ("browser.search", '{"query": "x"}'), ("browser.open", "")):
        (call,) = read_harmony(payload(f"analysis to={recipient} code⟦<|message|>⟧{body}", "<|message|>"))
        assert (call.name, call.arguments, call.valid, call.builtin) == (recipient, body, True, True)
    (own,) = read_harmony(payload("commentary to=functions.python⟦<|message|>⟧x", "<|message|>"))
    assert (own.name, own.valid, own.builtin) == ("python", False, False)
    (bare,) = read_harmony(payload("commentary to=get_time⟦<|message|>⟧{}", "<|message|>"))
    assert (bare.name, bare.valid, bare.note is not None) == ("get_time", True, True)


# Kimi's headers


@pytest.mark.parametrize(
    ("header", "tools", "name"),
    [
        ("functions.get_v2:0", ["get_v2"], "get_v2"),
        ("functionsget_v20", ["get_v2"], "get_v2"),
        ("functionsget_v20", ["get_v2", "get_v"], None),  # two readings: none is safe
        ("functions.invalid.0", ["invalid"], "invalid"),
        ("functions.invalid.0", ["other"], None),
        ("functionsexec5", ["exec"], "exec"),
        ("functions_get_weather_1", ["get_weather"], "get_weather"),
        ("functions.f:", ["f"], "f"),
    ],
)
def test_loose_kimi_headers_are_read_only_where_one_tool_fits(header: str, tools: list[str], name: str | None) -> None:
    (call,) = read_kimi(payload(header + "⟦<sep>⟧{}", "<sep>", tools))
    assert call.name == name
    assert call.arguments == "{}"
