"""Kimi K2, K2-Thinking and K2.5: a speaker marker per turn, calls in a section, the name in each call's header."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.kimi import read_kimi

FORMAT = TokenFormat(
    name="kimi_k2",
    title="Kimi K2, K2-Thinking, K2.5",
    think=Think("<think>", "</think>", required=False),  # K2-Instruct's vocabulary has no think tokens
    calls=Calls(
        "<|tool_call_begin|>",
        "<|tool_call_end|>",
        section_begin="<|tool_calls_section_begin|>",
        section_end="<|tool_calls_section_end|>",
        separator="<|tool_call_argument_begin|>",
        required=True,
    ),
    payload=read_kimi,
    turn_starts=("<|im_assistant|>", "<|im_user|>", "<|im_system|>"),
    stops=("<|im_end|>", "[EOS]"),
    expects="by_template",
    tools_argument="tools_ts_str",  # K2.5 onwards: TypeScript declarations, made in Python; K2's template has no such argument
    signature=("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>", "<|im_assistant|>", "<|im_end|>"),
    reasoning_parsers=("kimi_k2",),
)
