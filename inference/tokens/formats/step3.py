"""Step-3: the prompt opens the think block; calls in a section, each an invoke tag after the separator."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.xmlcall import read_step3

FORMAT = TokenFormat(
    name="step3",
    title="Step-3",
    think=Think("<think>", "</think>"),
    calls=Calls(
        "<｜tool_call_begin｜>",
        "<｜tool_call_end｜>",
        section_begin="<｜tool_calls_begin｜>",
        section_end="<｜tool_calls_end｜>",
        separator="<｜tool_sep｜>",
    ),
    payload=read_step3,
    turn_starts=("<|BOT|>",),
    stops=("<|EOT|>",),
    expects="always",
    spelled=("<think>", "</think>"),
    arguments_as="by_template",
    null_content="by_template",
    signature=("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<｜tool_sep｜>"),
    model_types=("step3_vl", "step3_text"),
    reasoning_parsers=("step3",),
)
