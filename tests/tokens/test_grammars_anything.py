"""No text, no marks and no parts bring a reader down, and none takes more than its length's worth of work."""

import cProfile
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.flags import FLAG_CODES
from inference.tokens.payloads.argpairs import read_glm, read_hunyuan
from inference.tokens.payloads.deepseek import read_deepseek_v3, read_deepseek_v31
from inference.tokens.payloads.dsml import read_dsml
from inference.tokens.payloads.harmony import read_harmony
from inference.tokens.payloads.hermes import read_hermes
from inference.tokens.payloads.jsontext import RawText
from inference.tokens.payloads.kimi import read_kimi
from inference.tokens.payloads.llama3 import read_llama3
from inference.tokens.payloads.mistral import read_mistral
from inference.tokens.payloads.payload import Payload, ToolCall
from inference.tokens.payloads.xmlcall import read_function_xml, read_invoke_xml, read_step3
from inference.tokens.schema import check_against, tool_schemas

READERS = [
    read_deepseek_v3,
    read_deepseek_v31,
    read_dsml,
    read_function_xml,
    read_glm,
    read_harmony,
    read_hermes,
    read_hunyuan,
    read_invoke_xml,
    read_kimi,
    read_llama3,
    read_mistral,
    read_step3,
]
Reader = Callable[[Payload], tuple[ToolCall, ...]]
PIECES = [
    *"{}[]()\"'\\:,;=<>/`\n \t1-.eN",
    "\ufffd", "é", "🦙", "\0", "\x1b", "\\ud800", "\\u0000", "NaN", "null", "True", "f", "get_time", "functions.f:0", "function",
    '{"name":"f","arguments":{}}', '{"name":', '"name"', '"arguments":', "{}", '{"a":1,"a":2}', "[f(a=1)]", "f(", "a=", '"""', "'''",
    "```json\n", "```", "<function=f>", "</function>", "<parameter=a>", "</parameter>", "<function=", '<invoke name="f">', "</invoke>",
    '<invoke name="f"/>', '<parameter name="a">', "<steptml:invoke name='f'>", "</steptml:invoke>", '<steptml:parameter name="a">',
    "</steptml:parameter>", '<｜DSML｜invoke name="f">', "</｜DSML｜invoke>", '<｜DSML｜parameter name="a" string="false">', "</｜DSML｜parameter>",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<tool_sep>", "[ARGS]", "[CALL_ID]", " to=functions.f", "to=python",
]  # fmt: skip
TOOLS = tool_schemas(
    [
        {
            "name": "f",
            "parameters": {
                "properties": {"a": {"type": ["integer", "object"], "properties": {}}, "b": {"enum": [1, "x", None]}},
                "required": ["a"],
            },
        }
    ]
)


@st.composite
def payloads(draw: st.DrawFn) -> Payload:
    """Grammar pieces and any text in any order, cut anywhere, with marks anywhere."""
    text = "".join(draw(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=25)))
    text = text.encode("utf-8", "replace").decode()
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    marks = [
        (start, end, draw(st.sampled_from([text[start:end], "<arg_key>", "</arg_value>", "[ARGS]", "[CALL_ID]"])))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
        if start < end
    ]
    parts, offset = (text,), 0
    if draw(st.booleans()):
        start = draw(st.integers(0, len(text)))
        offset = draw(st.integers(start, len(text)))
        parts = (text[:start], text[offset:])
    tools = draw(st.sampled_from([frozenset(), frozenset({"f", "get_time"})]))
    return Payload(text, parts, offset, tools, draw(st.sampled_from([None, tuple(marks)])))


def check(found: tuple[ToolCall, ...], text: str) -> None:
    assert found
    for call in found:
        for error in [call.error, *check_against(call, TOOLS)]:
            if error is not None:
                assert error.code in FLAG_CODES
                assert error.position is None or 0 <= error.position <= len(text)
                assert error.message.isprintable()
        if call.span is not None:
            assert 0 <= call.span[0] <= call.span[1] <= len(text)
            assert call.arguments == text[call.span[0] : call.span[1]]
        assert call.arguments is None or call.arguments in text
        assert all(0 <= place <= len(text) for place in call.places.values())
        json.dumps([call.name, call.note], ensure_ascii=False).encode()  # nothing that cannot be stored


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@settings(max_examples=200, deadline=None)
@given(given_payload=payloads())
def test_any_payload_gives_calls_with_places_inside_it(reader: Reader, given_payload: Payload) -> None:
    check(reader(given_payload), given_payload.text)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """A call's arguments as Qwen3-Coder, MiniMax and GLM would write them, with values of any text but their own closing tags."""
    name = st.text("abc_-.", min_size=1, max_size=5).filter(lambda text: text.strip(".-") == text)
    value = st.lists(st.one_of(st.sampled_from(["<", "&", "</", "\n", "1", '"']), st.text(max_size=4)), max_size=6)
    return draw(name), draw(
        st.dictionaries(name, value.map("".join).filter(lambda text: "parameter" not in text), max_size=4)
    )


@settings(max_examples=150, deadline=None)
@given(calls())
def test_what_is_written_in_tags_is_read_back_to_the_letter(call: tuple[str, dict[str, str]]) -> None:
    name, values = call
    lines = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    invoked = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in values.items())
    step = invoked.replace("parameter", "steptml:parameter")
    dsml = "".join(
        f'<｜DSML｜parameter name="{key}" string="true">{value}</｜DSML｜parameter>' for key, value in values.items()
    )
    pairs = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in values.items())
    for reader, text in (
        (read_function_xml, f"<function={name}>\n{lines}</function>"),
        (read_invoke_xml, f'<invoke name="{name}">\n{invoked}</invoke>'),
        (read_step3, f'function<sep><steptml:invoke name="{name}">{step}</steptml:invoke>'),
        (read_dsml, f'<｜DSML｜invoke name="{name}">{dsml}</｜DSML｜invoke>'),
        (read_glm, f"{name}\n{pairs}"),
        (read_hunyuan, f"{name}<tool_sep>\n{pairs}"),
    ):
        (found,) = reader(Payload(text, (text,), 0))
        assert (found.name, found.value, found.valid) == (name, values, True)
        assert {key: text[found.places[key] :][: len(value)] for key, value in values.items()} == values
        assert all(type(value) is (str if reader is read_dsml else RawText) for value in (found.value or {}).values())


SPLIT = {read_deepseek_v3, read_deepseek_v31, read_harmony, read_step3}
LONG = 120_000
ADVERSARIAL = [
    " ", "\n", "`", "``` ", "```json\n", "{", "[", '"', "'", "\\", '\\"', "\\'", '"""', '\\"""', "''' ", "(", "f(", "[f(", "f(a=[", "f(a='",
    'f(a="\\"', "a=", "1", "functions.1", "1x", "<", "<<", "<function=", "<function=f>", "<function=f>x</function>", "<parameter=a>",
    "<function=f><parameter=a>", "<function=f><parameter=a></function>", "</parameter>", "<invoke", "<invoke ", '<invoke name="', "<invoke a='",
    '<invoke name="f">{', '<invoke name="f"><parameter name="a">', "<｜DSML｜invoke ", '<｜DSML｜parameter name="a" string="false">',
    '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">{</｜DSML｜parameter></｜DSML｜invoke>', "<steptml:invoke ", "<arg_key>",
    "<arg_key>a</arg_key><arg_value>1</arg_value>", "f<arg_key:", "[ARGS]", "[ARGS]{", "f[CALL_ID]1[ARGS]{ ", "[CALL_ID]", '{"name"', '{"name":',
    '{"name":"f","arguments":{', '{"name":"f","arguments":{}} ', '{"name":"f","arguments":{}};x', '{"a":', '{"a":1,', "to=", " to=f", "to = ",
    "x" , "é", "\ufffd",
]  # fmt: skip


def long_payloads(length: int) -> list[Payload]:
    texts = [(piece * (length // len(piece) + 1))[:length] for piece in ADVERSARIAL]
    return [Payload(text, (text[:10], text[11:]), 11) for text in texts] + [
        Payload(whole, (whole,), 0)
        for text in texts
        for whole in (text, f"[f(a={text}", f'[{{"name":"f"}},{text}', f"f {text}")
    ]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_the_steps_grow_as_the_length_does(reader: Reader) -> None:
    """Steps are calls, counted: what a pattern does within one call is for the test below."""
    for short, long in zip(long_payloads(1_500), long_payloads(6_000), strict=True):
        few, many = steps(reader, short), steps(reader, long)
        assert many <= 5 * few + 2_000, long.text[:60]


def steps(reader: Reader, given: Payload) -> int:
    profile = cProfile.Profile()
    profile.enable()
    reader(given)
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.timeout(120)  # seconds where a pattern's work is linear, an hour where it is not
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_long_payloads_of_one_piece_are_read(reader: Reader) -> None:
    for piece in ADVERSARIAL:
        text = piece * (LONG // len(piece))
        assert reader(Payload(text, ("f", text[1:]), 1) if reader in SPLIT else Payload(text, (text,), 0))
