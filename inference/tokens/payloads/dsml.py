"""DeepSeek V3.2: invokes in DSML tags, each parameter saying whether it is a text or JSON; or a JSON object in an invoke."""

from inference.tokens.payloads.payload import Payload, ToolCall
from inference.tokens.payloads.xmlcall import invoke_grammar
from inference.tokens.payloads.xmltags import read_xml

_DSML = invoke_grammar("｜DSML｜", typed=True, json_note=None)


def read_dsml(payload: Payload) -> tuple[ToolCall, ...]:
    """The invokes between the section's markers; `string="true"` values are texts to the letter, the others JSON."""
    return read_xml(payload, _DSML)
