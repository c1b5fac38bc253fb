"""GLM-4.5, 4.6, 4.7 and kin: arguments as pairs of key and value tokens. An answer ends with the next speaker's marker."""

from inference.tokens.declaration import Calls, Think, TokenFormat
from inference.tokens.payloads.argpairs import read_glm

FORMAT = TokenFormat(
    name="glm45",
    title="GLM-4.5, GLM-4.6, GLM-4.7",
    think=Think("<think>", "</think>"),
    calls=Calls(
        "<tool_call>",
        "</tool_call>",
        inner=("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        required=True,
    ),
    payload=read_glm,
    turn_starts=("<|assistant|>", "<|user|>", "<|observation|>", "<|system|>"),
    never_in_answer=("<tool_response>", "</tool_response>", "<sop>", "[gMASK]"),
    stops=("<|user|>", "<|observation|>", "<|endoftext|>"),
    expects="by_template",
    switch_words=("/nothink", "/think"),
    arguments_as="by_template",
    null_content="by_template",
    signature=("<think>", "</think>", "<arg_key>", "<arg_value>", "<|observation|>"),
    model_types=("glm4_moe", "glm4_moe_lite", "glm4v_moe"),
    reasoning_parsers=("glm45",),
)
