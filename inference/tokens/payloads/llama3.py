"""Llama 3: a JSON object with `name` and `parameters`, several joined by `;`; or calls written as Python."""

from inference.tokens.payloads.jsoncalls import read_json_calls
from inference.tokens.payloads.payload import CallError, Payload, ToolCall
from inference.tokens.payloads.pythonic import looks_pythonic, read_pythonic


def read_llama3(payload: Payload) -> tuple[ToolCall, ...]:
    """The calls in the payload. Program text for the code interpreter calls no tool by name: kept, and said so."""
    text = payload.text
    if looks_pythonic(text):
        return read_pythonic(text)
    first = text.lstrip()[:1]
    if first in {"{", "["} or not first:
        return read_json_calls(text)
    message = "The call is neither a JSON object nor a call such as f(a=1)."
    return (ToolCall(None, text, CallError("tool_name_unreadable", message, 0), span=(0, len(text))),)
