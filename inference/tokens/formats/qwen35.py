"""Qwen3.5 and later: the prompt opens or closes the think block, calls are written as Qwen3-Coder writes them."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.xmlcall import read_function_xml

FORMAT = TokenFormat(
    name="qwen35",
    title="Qwen3.5 and later",
    think=Think("<think>", "</think>"),
    calls=Calls("<tool_call>", "</tool_call>", required=True),
    payload=read_function_xml,
    turn_starts=("<|im_start|>",),
    never_in_answer=(
        *("<tool_response>", "</tool_response>", "<|repo_name|>", "<|file_sep|>"),
        *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    ),
    stops=("<|im_end|>",),
    expects="by_template",
    signature=("<think>", "</think>", "<tool_call>", "<|im_start|>"),
    template_signs=("<function=", "<parameter=", "<think>"),
    model_types=("qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"),
    reasoning_parsers=("qwen3", "qwen3-thinking"),
)
