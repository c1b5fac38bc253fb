"""Hermes and Qwen: a JSON object with `name` and `arguments`, or a list of them."""

from inference.tokens.payloads.jsoncalls import read_json_calls
from inference.tokens.payloads.payload import Payload, ToolCall, noted
from inference.tokens.payloads.xmlcall import FUNCTION
from inference.tokens.payloads.xmltags import find_tags, read_xml

_SEVERAL = "Several calls stand between one pair of markers, without a list."


def read_hermes(payload: Payload) -> tuple[ToolCall, ...]:
    """The calls in the payload: one, or one for each item of a list. Qwen3-Coder's tags are read too, with a note."""
    if payload.text.lstrip()[:1] == "<" and any(tag.kind == "call" for tag in find_tags(payload, FUNCTION)):
        return noted(read_xml(payload, FUNCTION), "The call is written as Qwen3-Coder writes calls.")
    return read_json_calls(payload.text, several=_SEVERAL)
