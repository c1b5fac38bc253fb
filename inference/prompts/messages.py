"""Conversations in OpenAI's or ShareGPT's shape, as the messages that a chat template takes.

What is generated is the answer that follows the last user or tool message: assistant turns after it are placeholders and left
out, with a counted notice; earlier ones stay as context. Nothing is merged, moved or repaired without a word.
"""

import re
from typing import Any

from inference.prompts.content import text_of
from inference.prompts.roles import CALL, role_of
from inference.prompts.rows import Notes, RowRefused, kind_of, quote
from inference.prompts.tools import Parse, calls_in_text, read_calls

Message = dict[str, Any]

_WRITTEN_CALL = re.compile(r"tool[_▁]call(?:[_▁]begin)?[|｜]?>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>")
_SHAREGPT_KEPT = ("name", "tool_calls", "function_call", "tool_call_id", "reasoning_content")


def read_messages(value: object, field: str, parse: Parse, notes: Notes) -> list[Message]:
    """The context of the answer to be generated; never empty, its last assistant turns left out.

    Args:
        value: the row's list of messages.
        field: the row's key, for sentences.
        parse: reads JSON text kept inside strings.
        notes: where notices go.

    Raises:
        RowRefused: a message that cannot be used, or nothing to answer.
    """
    if not isinstance(value, list):
        raise RowRefused(
            "messages_not_list", f"`{field}` is {kind_of(value)} ({quote(value)}); a list of messages is needed"
        )
    if not value:
        raise RowRefused("conversation_empty", f"`{field}` is an empty list")
    turns = [_turn(item, f"{field}[{index}]") for index, item in enumerate(value)]
    kept = len(turns)
    while kept and turns[kept - 1][0] in {"assistant", CALL}:
        kept -= 1
    if kept < len(turns):
        notes.add(
            "answer_left_out",
            "the conversation ends in an assistant turn: that is the answer to be generated",
            counted=True,
        )
    if not any(role in {"user", "tool"} for role, _ in turns[:kept]):
        raise RowRefused("nothing_to_answer", f"`{field}` has no user message to answer")
    messages = [
        _message(role, item, f"{field}[{index}]", parse, notes) for index, (role, item) in enumerate(turns[:kept])
    ]
    _check_order(messages, field, notes)
    return messages


def _turn(item: object, where: str) -> tuple[str, Message]:
    if not isinstance(item, dict):
        raise RowRefused(
            "message_not_object",
            f"{where} is {kind_of(item)} ({quote(item)}); an object with role and content is needed",
        )
    return role_of(item.get("role", item.get("from")), where), item


def _message(role: str, item: Message, where: str, parse: Parse, notes: Notes) -> Message:
    openai = "role" in item
    raw = item.get("content", item.get("value", item.get("text")))
    if role == CALL:
        return {"role": "assistant", "content": "", "tool_calls": read_calls(raw, where, parse, notes)}
    extra = {
        key: held
        for key, held in item.items()
        if held is not None
        and key not in {"role", "from", "content", "value", "text"}
        and (openai or key in _SHAREGPT_KEPT)
    }
    if role == "assistant":
        _read_extra_calls(extra, where, parse, notes)
    if raw is None and extra.get("tool_calls"):
        return {"role": role, "content": None, **extra}  # what a template wants here differs by family: rendering knows
    text = text_of(raw, role, where, notes)
    if not openai:
        return _sharegpt_text(role, text, extra, where, parse, notes)
    return {"role": role, "content": text, **extra}


def _read_extra_calls(extra: Message, where: str, parse: Parse, notes: Notes) -> None:
    legacy = extra.pop("function_call", None)
    if legacy and not extra.get("tool_calls"):
        extra["tool_calls"] = legacy
        notes.add("function_call_converted", f"{where}: `function_call` became `tool_calls`")
    if extra.get("tool_calls"):
        extra["tool_calls"] = read_calls(extra["tool_calls"], f"{where}.tool_calls", parse, notes)
    else:
        extra.pop("tool_calls", None)


def _sharegpt_text(role: str, text: str, extra: Message, where: str, parse: Parse, notes: Notes) -> Message:
    """ShareGPT has no place for calls and results, so data sets write them in Hermes tags inside the text."""
    if role == "assistant" and "tool_calls" not in extra and (found := calls_in_text(text, parse)):
        notes.add(
            "inline_calls_converted",
            f"{where}: {len(found[1])} calls in <tool_call> tags became `tool_calls`",
            counted=True,
        )
        return {"role": role, "content": found[0], **extra, "tool_calls": found[1]}
    inner = text.strip().removeprefix("<tool_response>").removesuffix("</tool_response>")
    if (
        role == "tool"
        and len(inner) == len(text.strip()) - len("<tool_response></tool_response>")
        and "tool_response>" not in inner
    ):
        notes.add(
            "tool_result_unwrapped", f"{where}: the <tool_response> tags around a result were taken off", counted=True
        )
        return {"role": role, "content": inner.strip("\n"), **extra}
    return {"role": role, "content": text, **extra}


def _calls_in(message: Message) -> int:
    """How many results may follow a message; calls that stand in its text as the model wrote them count as well."""
    return len(message.get("tool_calls") or ()) or len(_WRITTEN_CALL.findall(message["content"] or ""))


def _check_order(messages: list[Message], field: str, notes: Notes) -> None:
    due = 0
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "tool" and not due:
            notes.add("tool_without_call", f"{field}[{index}] is a tool's result, but no call before it waits for one")
        due = max(0, due - 1) if role == "tool" else _calls_in(message)
        if not isinstance(content, str) or content.strip():
            continue
        if role == "user" and index == len(messages) - 1:
            raise RowRefused("prompt_empty", f"{field}[{index}], the message to be answered, is empty")
        if not message.get("tool_calls"):
            notes.add("content_empty", f"{field}[{index}] (role {role}) is empty")
    first = next((message["role"] for message in messages if message["role"] not in {"system", "developer"}), "")
    if first == "assistant":
        notes.add("starts_with_assistant", f"{field} begins with an assistant turn; it is kept as it stands")
