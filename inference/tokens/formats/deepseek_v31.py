"""DeepSeek V3.1 (also Terminus and V3.2-Exp): every prompt opens or closes the think block, the call's name stands in its header."""

from dataclasses import replace

from inference.tokens.formats import deepseek_r1
from inference.tokens.payloads.deepseek import read_deepseek_v31

FORMAT = replace(
    deepseek_r1.FORMAT,
    name="deepseek_v31",
    title="DeepSeek V3.1, V3.1-Terminus, V3.2-Exp",
    payload=read_deepseek_v31,
    turn_starts=("<｜Assistant｜>", "<｜User｜>", "<｜tool▁output▁begin｜>"),  # after tool results no speaker is named
    never_in_answer=(
        *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁end｜>"),
        *("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ),
    expects="by_prompt",
    signature=(*deepseek_r1.FORMAT.signature, "<｜tool▁sep｜>"),
    template_signs=("thinking",),
    reasoning_parsers=("deepseek-v3",),
)
