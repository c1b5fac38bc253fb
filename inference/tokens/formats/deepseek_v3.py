"""DeepSeek V3 (also 0324): no reasoning of its own. Its vocabulary has no think tokens; spelled ones are taken for them."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.deepseek import read_deepseek_v3

FORMAT = TokenFormat(
    name="deepseek_v3",
    title="DeepSeek V3, V3-0324",
    think=Think("<think>", "</think>", required=False),
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
    expects="by_prompt",
    spelled=("<think>", "</think>"),
    arguments_as="string",
    null_content="null",
    signature=("<｜Assistant｜>", "<｜User｜>", "<｜tool▁sep｜>"),
    reasoning_parsers=("deepseek-v3",),
)
