"""DeepSeek V3 (also 0324): no reasoning of its own. Its vocabulary has no think tokens; spelled ones are taken for them."""

from dataclasses import replace

from inference.tokens.declaration import Think
from inference.tokens.formats import deepseek_r1

FORMAT = replace(
    deepseek_r1.FORMAT,
    name="deepseek_v3",
    title="DeepSeek V3, V3-0324",
    think=Think("<think>", "</think>", required=False),
    spelled=("<think>", "</think>"),
    expects="by_prompt",
    signature=("<｜Assistant｜>", "<｜User｜>", "<｜tool▁sep｜>"),
    reasoning_parsers=("deepseek-v3",),
)
