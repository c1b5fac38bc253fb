"""DeepSeek V3.1 (also Terminus and V3.2-Exp): every prompt opens or closes the think block, the call's name stands in its header."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.deepseek import read_deepseek_v31

FORMAT = TokenFormat(
    name="deepseek_v31",
    title="DeepSeek V3.1, V3.1-Terminus, V3.2-Exp",
    think=Think("<think>", "</think>"),
    calls=Calls(
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        section_begin="<｜tool▁calls▁begin｜>",
        section_end="<｜tool▁calls▁end｜>",
        separator="<｜tool▁sep｜>",
    ),
    payload=read_deepseek_v31,
    turn_starts=("<｜Assistant｜>", "<｜User｜>", "<｜tool▁output▁begin｜>"),  # after tool results no speaker is named
    never_in_answer=(
        *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁end｜>"),
        *("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ),
    stops=("<｜end▁of▁sentence｜>",),
    expects="by_prompt",
    arguments_as="string",
    null_content="null",
    signature=("<think>", "</think>", "<｜Assistant｜>", "<｜User｜>", "<｜tool▁sep｜>"),
    template_signs=("thinking",),
    reasoning_parsers=("deepseek-v3",),
)
