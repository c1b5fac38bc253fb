"""Chat templates by how they treat calls, and short ways to a render's warnings: for the tests of rendering."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference.tokens.rendering import Rendering, render
from inference.tokens.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]
"""Makes a tokenizer with the chat template given"""

USER = {"role": "user", "content": "What time is it in Oslo, please?"}


def template(call: str, content: str = "{{ m.content or '' }}") -> str:
    """A template that writes each call, `c`, by `call`, and a message's content by `content`."""
    return (
        "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n" + content + "{% for call in m.tool_calls or [] %}"
        "{% set c = call.function %}<tool_call>{{ c.name }}:"
        + call
        + "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    )


JOINED = template("{{ '' + c.arguments }}")
"""Arguments are joined to text: a mapping raises (DeepSeek V3)"""
AS_JSON = template("{{ c.arguments | tojson }}")
"""Arguments are written as JSON: a text is written as JSON once more (Qwen2.5, Llama 3, DeepSeek V3.1 as it is now)"""
PRINTED = template("{{ c.arguments }}")
"""Arguments are printed: a mapping as Python writes it"""
BY_ITEMS = template(
    "{% for k, v in c.arguments.items() %}<{{ k }}>{{ v if v is string else v | tojson }}</{{ k }}>{% endfor %}"
)
"""Arguments one by one: a text raises (GLM, MiniMax, Qwen3-Coder)"""
EITHER = template("{% if c.arguments is string %}{{ c.arguments }}{% else %}{{ c.arguments | tojson }}{% endif %}")
"""Arguments in either form (Qwen3)"""
CALL_TEMPLATES = {"joined": JOINED, "json": AS_JSON, "printed": PRINTED, "items": BY_ITEMS, "either": EITHER}

CONTENT_TESTED = "{% if 'x' in m.content %}!{% endif %}{{ m.content }}"
"""A content that is null raises (Qwen3)"""
CONTENT_PRINTED = "{{ m.content }}"
"""A content that is null is printed: None (GLM, MiniMax)"""
NULL_WANTED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and m.content is none %}"
    "{% for call in m.tool_calls %}<tool_call>{{ call.function.name }}:{{ '' + call.function.arguments }}</tool_call>{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
)
"""Calls are written only where the content is null (DeepSeek V3)"""


def calling(arguments: Any, content: str | None = None, name: str = "get_time", **more: Any) -> list[dict[str, Any]]:
    """A user's question, a call with these arguments, and its result."""
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        USER,
        {"role": "assistant", "content": content, "tool_calls": [call], **more},
        {"role": "tool", "content": "12:00", "tool_call_id": "1"},
    ]


def tool(name: str, description: str = "Tells the time.", **properties: Any) -> dict[str, Any]:
    """A tool with these parameters, each a schema."""
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def codes(found: Rendering) -> list[str]:
    """The codes of its warnings, in order."""
    return [warning.code for warning in found.warnings]


def warned(
    tokenizer: Tokenizer,
    messages: Sequence[Mapping[str, Any]],
    tools: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    **more: Any,
) -> list[tuple[str, int | None]]:
    """The warnings of a render as (code, index of the message)."""
    return [(item.code, item.where) for item in render(tokenizer, messages, tools, kwargs, **more).warnings]
