"""Nemotron 3: ChatML with a hybrid think block, calls as Qwen3-Coder writes them."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.xmlcall import read_function_xml

FORMAT = TokenFormat(
    name="nemotron",
    title="Nemotron 3",
    think=Think("<think>", "</think>"),
    calls=Calls("<tool_call>", "</tool_call>"),
    payload=read_function_xml,
    turn_starts=("<|im_start|>",),
    never_in_answer=("<tool_response>", "</tool_response>"),
    stops=("<|im_end|>",),
    expects="by_template",
    signature=("<think>", "</think>", "<tool_call>", "<|im_start|>"),
    template_signs=("truncate_history_thinking", "<function=", "<parameter=", "<think>"),
    model_types=("nemotron_h",),
    reasoning_parsers=("nemotron_3",),
)
