"""gpt-oss: an answer is a row of messages in channels (harmony), cut by rules of its own."""

from inference.tokens.declaration import Messages, TokenFormat
from inference.tokens.payloads.harmony import read_harmony
from inference.tokens.segmentation.harmony import segment_messages

FORMAT = TokenFormat(
    name="gpt_oss",
    title="gpt-oss (harmony)",
    messages=Messages("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>"),
    payload=read_harmony,
    stops=("<|return|>", "<|call|>"),
    expects="always",
    arguments_as="mapping",
    null_content="by_template",
    signature=("<|start|>", "<|channel|>", "<|message|>", "<|return|>", "<|call|>"),
    model_types=("gpt_oss",),
    reasoning_parsers=("gpt-oss",),
    segmenter=segment_messages,
)
