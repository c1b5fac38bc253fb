"""Hunyuan: key and value tokens as in GLM, in a section. Newer vocabularies put a suffix into each marker's token."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.argpairs import read_hunyuan

FORMAT = TokenFormat(
    name="hunyuan",
    title="Hunyuan (A13B, Hy3)",
    think=Think("<think>", "</think>"),
    calls=Calls(
        "<tool_call>",
        "</tool_call>",
        section_begin="<tool_calls>",
        section_end="</tool_calls>",
        inner=("<tool_sep>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    payload=read_hunyuan,
    turn_starts=(  # A13B ends the user's turn, and so begins the assistant's, with extra_0, the system's with extra_4
        *("<｜hy_Assistant｜>", "<|extra_0|>", "<|extra_4|>", "<|startoftext|>", "<｜hy_User｜>"),
    ),
    never_in_answer=("<tool_responses>", "</tool_responses>", "<tool_response>", "</tool_response>"),
    stops=("<｜hy_eos｜>", "<|eos|>"),
    expects="by_template",
    switch_words=("/no_think", "/think"),
    spelled=("<think>", "</think>", "<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>"),
    suffixed=True,
    arguments_as="by_template",
    null_content="by_template",
    template_signs=("hy_User",),
    model_types=("hunyuan_v1_moe", "hunyuan_v1_dense", "hunyuan", "hy_v3"),
    reasoning_parsers=("hunyuan",),
)
