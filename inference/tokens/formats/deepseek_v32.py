"""DeepSeek V3.2: calls in DSML, tags whose brackets and names are ordinary ids around one token of their own."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.dsml import read_dsml

FORMAT = TokenFormat(
    name="deepseek_v32",
    title="DeepSeek V3.2",
    think=Think("<think>", "</think>"),
    calls=Calls("<｜DSML｜function_calls>", "</｜DSML｜function_calls>", inner=("｜DSML｜",), required=True),
    payload=read_dsml,
    turn_starts=("<｜Assistant｜>", "<｜User｜>"),
    never_in_answer=("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    stops=("<｜end▁of▁sentence｜>",),
    expects="by_prompt",
    spelled=("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
    arguments_as="string",
    null_content="by_template",
    signature=("<think>", "</think>", "<｜Assistant｜>", "<｜User｜>", "｜DSML｜"),
    reasoning_parsers=("deepseek-v3",),
)
