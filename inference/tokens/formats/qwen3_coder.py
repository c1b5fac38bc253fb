"""Qwen3-Coder: no reasoning, calls as tags around the function and each parameter."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.xmlcall import read_function_xml

FORMAT = TokenFormat(
    name="qwen3_coder",
    title="Qwen3-Coder",
    think=Think("<think>", "</think>", required=False),
    calls=Calls("<tool_call>", "</tool_call>", required=True),
    payload=read_function_xml,
    turn_starts=("<|im_start|>",),
    never_in_answer=(
        *("<tool_response>", "</tool_response>", "<|repo_name|>", "<|file_sep|>"),
        *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    ),
    stops=("<|im_end|>",),
    expects="by_template",
    signature=("<tool_call>", "</tool_call>", "<|im_start|>"),
    template_signs=("<function=", "<parameter="),
    reasoning_parsers=("qwen3",),
)
