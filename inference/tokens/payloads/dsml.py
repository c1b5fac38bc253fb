"""DeepSeek V3.2: invokes in DSML tags, each parameter saying whether it is a text or JSON; or a JSON object in an invoke."""

from dataclasses import replace

from inference.tokens.payloads.payload import Payload, ToolCall
from inference.tokens.payloads.xmlcall import invoke_grammar
from inference.tokens.payloads.xmltags import read_xml

_DSML = invoke_grammar("｜DSML｜", typed=True, json_note=None)


def read_dsml(payload: Payload) -> tuple[ToolCall, ...]:
    """The invokes between the section's markers; `string="true"` values are texts to the letter, the others JSON.

    The section's markers are spelled with ordinary ids, and one of those may hold the first or last tag's bracket as well (`><`,
    `></`): such a rest of a marker is no text of the model's.
    """
    end = len(payload.text.removesuffix("/").removesuffix("<")) if payload.text.endswith(("<", "</")) else None
    return read_xml(replace(payload, text=payload.text[:end]), _DSML, start=payload.text.startswith(">"))
