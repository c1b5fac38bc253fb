"""Qwen3, thinking and instruct: `<think>` by the model or the prompt, Hermes-style calls. Its markers are not flagged special."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.hermes import read_hermes

FORMAT = TokenFormat(
    name="qwen3",
    title="Qwen3 (hybrid, thinking and instruct)",
    think=Think("<think>", "</think>"),
    calls=Calls("<tool_call>", "</tool_call>"),
    payload=read_hermes,
    turn_starts=("<|im_start|>",),
    never_in_answer=(
        *("<tool_response>", "</tool_response>", "<|repo_name|>", "<|file_sep|>"),
        *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    ),
    stops=("<|im_end|>",),
    expects="by_template",
    switch_words=("/no_think", "/think"),
    signature=("<think>", "</think>", "<|im_start|>"),
    reasoning_parsers=("qwen3", "qwen3-thinking"),
)
