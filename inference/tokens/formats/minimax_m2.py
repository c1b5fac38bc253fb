"""MiniMax-M2: the prompt opens the think block; one marked block holds all the calls, each an invoke tag in it."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.xmlcall import read_invoke_xml

FORMAT = TokenFormat(
    name="minimax_m2",
    title="MiniMax-M2",
    think=Think("<think>", "</think>"),
    calls=Calls("<minimax:tool_call>", "</minimax:tool_call>", required=True),
    payload=read_invoke_xml,
    turn_starts=("]~b]", "]~!b["),
    stops=("[e~[",),
    expects="always",
    arguments_as="by_template",
    null_content="by_template",
    signature=("<think>", "</think>", "<minimax:tool_call>", "]~b]", "[e~["),
    model_types=("minimax_m2",),
    reasoning_parsers=("minimax", "minimax-append-think"),
)
