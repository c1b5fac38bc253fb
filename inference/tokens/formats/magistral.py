"""Mistral and Magistral: `[THINK]` where the model reasons; a call has a begin marker only, the next one or the stop ends it."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.mistral import read_mistral

FORMAT = TokenFormat(
    name="magistral",
    title="Magistral, Mistral",
    think=Think("[THINK]", "[/THINK]", required=False),  # Mistral's vocabularies without reasoning have no such tokens
    calls=Calls("[TOOL_CALLS]", inner=("[CALL_ID]", "[ARGS]")),
    payload=read_mistral,
    turn_starts=("[/INST]", "[INST]", "[/TOOL_RESULTS]", "[TOOL_RESULTS]", "[SYSTEM_PROMPT]"),
    stops=("</s>",),
    expects="by_template",
    arguments_as="by_template",
    null_content="by_template",
    signature=("[INST]", "[/INST]", "[TOOL_CALLS]", "</s>"),
    reasoning_parsers=("mistral",),
)
