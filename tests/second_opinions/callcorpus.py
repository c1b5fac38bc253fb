"""Tool calls as each family writes them, sound and broken, by a label that says what is in them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "i": {"type": "integer"},
                    "n": {"type": "number"},
                    "b": {"type": "boolean"},
                    "a": {"type": "array", "items": {}},
                    "o": {"type": "object"},
                },
            },
        },
    }
    for name in ("get_time", "search.web")
]
NAME, OTHER = "get_time", "search.web"

JSON_ARGUMENTS = {
    "plain": '{"s": "Oslo", "i": 3}',
    "empty": "{}",
    "nested": '{"o": {"a": [1, 2.50, null, true], "b": {}}, "a": []}',
    "unicode": '{"s": "é🙂\\u00e9"}',
    "escapes": '{"s": "a\\nb \\"c\\" \\\\d\\t</x> & <y>"}',
    "spaces": '  {  "s" :  " x " }  ',
    "numbers": '{"i": 12345678901234567890, "n": -1.50e-3}',
    "newline in a string": '{"s": "a\nb"}',
    "lone backslash": '{"s": "C:\\path"}',
    "brace missing": '{"s": "x"',
    "comma too many": '{"s": "x",}',
    "python": "{'s': 'x', 'b': True}",
    "encoded twice": '"{\\"s\\": \\"x\\"}"',
    "a list": "[1, 2]",
    "nothing": "",
}
BARE_ARGUMENTS = {
    "plain": {"s": "Oslo", "i": "3"},
    "empty": {},
    "typed": {"n": "2.50", "b": "true", "a": "[1, 2]", "o": '{"x": null}'},
    "unicode": {"s": "é🙂"},
    "number as text": {"s": "0042"},
    "brackets": {"s": "if a < b && c > d"},
    "lines": {"s": "one\ntwo\n\nthree"},
    "quotes": {"s": '"quoted" \\n'},
    "big number": {"i": "12345678901234567890"},
    "python": {"b": "True", "o": "{'x': None}"},
    "not a number": {"i": "three"},
    "broken object": {"o": '{"x": '},
    "nothing": {"s": ""},
    "json word as text": {"s": "null"},
}


@dataclass(frozen=True)
class Grammar:
    """How one family writes a call (name and arguments) and several of them, and SGLang's key for it."""

    key: str
    call: Callable[[str, Any], str]
    join: Callable[[list[str]], str] = "".join
    bare: bool = False
    """Whether arguments are bare text in tags, and not JSON"""
    cut: str = ""
    """The end marker; a call without it is cut off"""

    def samples(self) -> Iterator[tuple[str, str]]:
        """(label, text)."""
        arguments: dict[str, Any] = {**(BARE_ARGUMENTS if self.bare else JSON_ARGUMENTS)}
        for label, value in arguments.items():
            yield label, self.join([self.call(NAME, value)])
        good, other = self.call(NAME, arguments["plain"]), self.call(OTHER, arguments["plain"])
        broken = self.call(NAME, arguments["broken object" if self.bare else "brace missing"])
        yield "two calls", self.join([good, other])
        yield "a broken one before a sound one", self.join([broken, other])
        yield "a sound one before a broken one", self.join([other, broken])
        yield "text around", f"Let me see.{self.join([good])}\nDone."
        yield "unknown tool", self.join([self.call("nope", arguments["plain"])])
        yield "hyphen in the name", self.join([self.call("get-time", arguments["plain"])])
        yield "no name", self.join([self.call("", arguments["plain"])])
        if self.cut:
            yield "cut off", good[: good.rindex(self.cut)]


def _hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def _kimi(name: str, arguments: str) -> str:
    head = f"functions.{name}:0" if name else ""
    return f"<|tool_call_begin|>{head}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def _deepseek(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def _deepseek31(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


def _function_xml(name: str, arguments: dict[str, str]) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def _glm(name: str, arguments: dict[str, str]) -> str:
    inner = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items())
    return f"<tool_call>{name}\n{inner}</tool_call>"


def _hunyuan(name: str, arguments: dict[str, str]) -> str:
    inner = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items())
    return f"<tool_call>{name}<tool_sep>\n{inner}</tool_call>"


def _invoke(name: str, arguments: dict[str, str]) -> str:
    inner = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in arguments.items())
    return f'<minimax:tool_call>\n<invoke name="{name}">\n{inner}</invoke>\n</minimax:tool_call>'


def _dsml(name: str, arguments: dict[str, str]) -> str:
    inner = "".join(
        f'<｜DSML｜parameter name="{key}" string="{"true" if key == "s" else "false"}">{value}</｜DSML｜parameter>\n'
        for key, value in arguments.items()
    )
    return f'<｜DSML｜invoke name="{name}">\n{inner}</｜DSML｜invoke>\n'


def _step3(name: str, arguments: dict[str, str]) -> str:
    inner = "".join(f'<steptml:parameter name="{key}">{value}</steptml:parameter>' for key, value in arguments.items())
    return f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{inner}</steptml:invoke><｜tool_call_end｜>'


def _harmony(name: str, arguments: str) -> str:
    to = f"functions.{name}" if name else "functions."
    return f"<|start|>assistant<|channel|>commentary to={to} <|constrain|>json<|message|>{arguments}<|call|>"


def _within(begin: str, end: str) -> Callable[[list[str]], str]:
    return lambda calls: begin + "".join(calls) + end


GRAMMARS: dict[str, Grammar] = {
    "qwen3": Grammar("qwen", _hermes, "\n".join, cut="\n</tool_call>"),
    "hermes": Grammar("hermes", _hermes, "\n".join, cut="\n</tool_call>"),
    "qwen3_coder": Grammar("qwen3_coder", _function_xml, "\n".join, bare=True, cut="</tool_call>"),
    "qwen35": Grammar("qwen3_coder", _function_xml, "\n".join, bare=True, cut="</tool_call>"),
    "nemotron": Grammar("qwen3_coder", _function_xml, "\n".join, bare=True, cut="</tool_call>"),
    "kimi_k2": Grammar(
        "kimi_k2", _kimi, _within("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"), cut="<|tool_call_end|>"
    ),
    "deepseek_r1": Grammar(
        "deepseekv3", _deepseek, _within("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), cut="<｜tool▁call▁end｜>"
    ),
    "deepseek_v3": Grammar(
        "deepseekv3", _deepseek, _within("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), cut="<｜tool▁call▁end｜>"
    ),
    "deepseek_v31": Grammar(
        "deepseekv31", _deepseek31, _within("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), cut="<｜tool▁call▁end｜>"
    ),
    "deepseek_v32": Grammar(
        "deepseekv32", _dsml, _within("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"), bare=True
    ),
    "glm45": Grammar("glm", _glm, "\n".join, bare=True, cut="</tool_call>"),
    "hunyuan": Grammar(
        "hunyuan", _hunyuan, _within("<tool_calls>\n", "\n</tool_calls>"), bare=True, cut="</tool_call>"
    ),
    "minimax_m2": Grammar("minimax-m2", _invoke, "\n".join, bare=True, cut="</minimax:tool_call>"),
    "step3": Grammar(
        "step3", _step3, _within("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"), bare=True, cut="<｜tool_call_end｜>"
    ),
    "gpt_oss": Grammar("gpt-oss", _harmony, cut="<|call|>"),
    "llama3": Grammar(
        "llama3",
        lambda name, arguments: f'{{"name": "{name}", "parameters": {arguments}}}',
        lambda calls: "<|python_tag|>" + ";".join(calls),
    ),
    "magistral": Grammar(
        "mistral",
        lambda name, arguments: f"[TOOL_CALLS]{name}[ARGS]{arguments}",
    ),
}
