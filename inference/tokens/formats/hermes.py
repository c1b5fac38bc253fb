"""Hermes and kin (Qwen2.5 too): JSON calls in tags. Not every vocabulary has the tags as tokens; there, their spelling acts."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.hermes import read_hermes

FORMAT = TokenFormat(
    name="hermes",
    title="Hermes, Qwen2.5",
    think=Think("<think>", "</think>", required=False),
    calls=Calls("<tool_call>", "</tool_call>"),
    payload=read_hermes,
    turn_starts=("<|im_start|>",),
    never_in_answer=(
        *("<tool_response>", "</tool_response>", "<|repo_name|>", "<|file_sep|>"),
        *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    ),
    stops=("<|im_end|>",),
    expects="by_prompt",
    spelled=("<tool_call>", "</tool_call>"),
    arguments_as="by_template",
    null_content="by_template",
    signature=("<|im_start|>",),
    template_signs=("<tool_call>",),
    reasoning_parsers=("qwen3",),
)
