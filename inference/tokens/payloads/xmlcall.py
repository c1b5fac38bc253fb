"""Calls in tags, as Qwen3-Coder, MiniMax-M2 and Step-3 spell them."""

import re

from inference.tokens.payloads.jsoncalls import read_json_calls
from inference.tokens.payloads.payload import Payload, ToolCall, noted
from inference.tokens.payloads.xmltags import Grammar, find_tags, read_xml

FUNCTION = Grammar(
    re.compile(
        r"<function=(?P<call>[^<>\n]*+)>|(?P<call_end></function>)"
        r"|<parameter=(?P<parameter>[^<>\n]*+)>|(?P<parameter_end></parameter>)"
    ),
    attributes=False,
    call_end="</function>",
    parameter_end="</parameter>",
    lines=True,
)


def invoke_grammar(prefix: str, *, typed: bool = False, json_note: str | None = Grammar.json_note) -> Grammar:
    """Tags `<{prefix}invoke name="…">` and `<{prefix}parameter name="…">` with their ends."""
    mark = re.escape(prefix)
    return Grammar(
        re.compile(
            rf"<{mark}invoke(?P<call>[\s/][^<>]*+|)>|(?P<call_end></{mark}invoke>)"
            rf"|<{mark}parameter(?P<parameter>[\s/][^<>]*+|)>|(?P<parameter_end></{mark}parameter>)"
        ),
        attributes=True,
        call_end=f"</{prefix}invoke>",
        parameter_end=f"</{prefix}parameter>",
        typed=typed,
        json_note=json_note,
    )


INVOKE = invoke_grammar("")
STEPTML = invoke_grammar("steptml:")


def read_function_xml(payload: Payload) -> tuple[ToolCall, ...]:
    """`<function=NAME>` with `<parameter=KEY>` lines; a JSON object as Hermes writes calls is read too, with a note."""
    return _tags_or_json(payload, FUNCTION)


def read_invoke_xml(payload: Payload) -> tuple[ToolCall, ...]:
    """Any number of `<invoke name="NAME">` with `<parameter name="KEY">`; a JSON object is read too, with a note."""
    return _tags_or_json(payload, INVOKE)


def read_step3(payload: Payload) -> tuple[ToolCall, ...]:
    """`function`, the separator, then `<steptml:invoke name="NAME">` with `<steptml:parameter name="KEY">`."""
    if len(payload.parts) > 1:
        kind = payload.parts[0].strip()
        calls = read_xml(payload, STEPTML, payload.offset)
        return calls if kind == "function" else noted(calls, "The call's type before the separator is not `function`.")
    opening = next((tag.start for tag in find_tags(payload, STEPTML) if tag.kind == "call"), 0)
    return noted(read_xml(payload, STEPTML, opening), "The separator between the call's type and its name is missing.")


def _tags_or_json(payload: Payload, grammar: Grammar) -> tuple[ToolCall, ...]:
    if payload.text.lstrip()[:1] in {"{", "["}:
        return noted(read_json_calls(payload.text), "The call is a JSON object, as Hermes writes calls.")
    return read_xml(payload, grammar)
