"""Llama 3 with tools: a call after `<|python_tag|>`, or, from 3.1 on, as bare JSON that is the whole answer."""

from inference.tokens.declaration import Calls, TokenFormat
from inference.tokens.payloads.llama3 import read_llama3

FORMAT = TokenFormat(
    name="llama3",
    title="Llama 3.1, 3.2, 3.3 with tools",
    calls=Calls("<|python_tag|>", bare=r'\s*\{\s*"name"\s*:'),
    payload=read_llama3,
    turn_starts=("<|start_header_id|>", "<|end_header_id|>", "<|begin_of_text|>"),
    stops=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
    arguments_as="by_template",
    null_content="by_template",
    signature=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"),
)
