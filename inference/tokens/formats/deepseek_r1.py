"""DeepSeek R1 and its kin with V3's call syntax. The original V3 spells `<think>` with three ordinary ids: not this format."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.deepseek import read_deepseek_v3

FORMAT = TokenFormat(
    name="deepseek_r1",
    title="DeepSeek R1",
    think=Think("<think>", "</think>"),
    calls=Calls(
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        section_begin="<｜tool▁calls▁begin｜>",
        section_end="<｜tool▁calls▁end｜>",
        separator="<｜tool▁sep｜>",
    ),
    payload=read_deepseek_v3,
    turn_starts=("<｜Assistant｜>", "<｜User｜>", "<｜tool▁outputs▁begin｜>"),  # after tool results no speaker is named
    never_in_answer=(
        *("<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
        *("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ),
    stops=("<｜end▁of▁sentence｜>",),
    expects="always",
    arguments_as="string",
    null_content="null",
    signature=("<think>", "</think>", "<｜Assistant｜>", "<｜User｜>"),
    reasoning_parsers=("deepseek-r1",),
)
