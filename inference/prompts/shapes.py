"""One row of any known shape, as a prompt: which column holds the question, its id, its category, its tools."""

import re
from typing import Any

from inference.prompts.jsontext import JsonReader, dumps
from inference.prompts.messages import Message, read_messages
from inference.prompts.rows import Notes, PromptRow, RawRow, RowRefused, kind_of, quote
from inference.prompts.tools import read_tools

CONVERSATION_KEYS = ("messages", "conversations", "conversation")
TEXT_KEYS = ("prompt", "instruction", "question", "input", "query", "text")
ID_KEYS = ("id", "prompt_id", "uuid", "conversation_id")
CATEGORY_KEYS = ("category", "source")
SYSTEM_KEYS = ("system", "system_prompt")
TOOL_KEYS = ("tools", "functions", "tool_defs", "oai_tools")

MAX_ID = 300
MAX_CATEGORY = 120
MAX_PREVIEW = 200
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f]+")


def read_prompt(row: RawRow, reader: JsonReader, *, cells_are_text: bool = False) -> PromptRow:
    """The prompt in a row.

    Args:
        row: a plain value: an object, or a bare string, which is a prompt.
        reader: parses JSON kept inside strings, and knows whether any number needs its own spelling.
        cells_are_text: the row comes from CSV, where `messages` and the like can only be JSON text.

    Raises:
        RowRefused: the row holds no usable prompt; the sentence names key and value.
    """
    notes = Notes(list(row.notices))
    value = {"prompt": row.value} if isinstance(row.value, str) else row.value
    if not isinstance(value, dict):
        raise RowRefused("row_not_object", f"the row is {kind_of(value)} ({quote(value)}); an object is needed")
    messages = _with_system(value, _messages(value, reader, notes, cells_are_text=cells_are_text), notes)
    tools = read_tools(_first(value, TOOL_KEYS)[1], reader.parse, notes)
    source_id = _label(value, ID_KEYS, MAX_ID, notes) or f"line-{row.line}"
    category = _label(value, CATEGORY_KEYS, MAX_CATEGORY, notes)
    messages_text = dumps(messages, exact=reader.exact)
    tools_text = dumps(tools, exact=reader.exact) if tools else None
    for name, held, text in (
        ("messages", messages, messages_text),
        ("tools", tools, tools_text),
        ("id", source_id, source_id),
        ("category", category, category),
    ):
        if text is not None:
            _check_text(name, held, text)
    return PromptRow(row.line, source_id, category, _preview(messages), messages_text, tools_text, tuple(notes.items))


def _messages(row: dict[str, Any], reader: JsonReader, notes: Notes, *, cells_are_text: bool) -> list[Message]:
    key, value = _first(row, CONVERSATION_KEYS)
    if key:
        if isinstance(value, str):
            try:
                value = reader.parse(value)
            except RowRefused as refusal:
                raise RowRefused("messages_not_json", f"`{key}` is a string that is {refusal.message}") from None
        return read_messages(value, key, reader.parse, notes)
    key, value = _first(row, TEXT_KEYS)
    if not key:
        keys = ", ".join(quote(name, 30) for name in list(row)[:8]) or "none"
        if empty := next((name for name in (*CONVERSATION_KEYS, *TEXT_KEYS) if name in row), ""):
            raise RowRefused(
                "prompt_empty", f"`{empty}` is empty, and no other key holds a prompt; the row's keys: {keys}"
            )
        raise RowRefused(
            "prompt_missing", f"no prompt: the row needs `prompt`, `messages` or `conversations`; its keys: {keys}"
        )
    if isinstance(value, list) and not cells_are_text:
        return read_messages(value, key, reader.parse, notes)
    if not isinstance(value, str):
        raise RowRefused(
            "prompt_not_text", f"`{key}` is {kind_of(value)} ({quote(value)}); a string or a list of messages is needed"
        )
    context = row.get("input")
    if key == "instruction" and isinstance(context, str) and context.strip():
        notes.add("input_appended", "`input` was put below `instruction`, after a blank line", counted=True)
        value = f"{value}\n\n{context}"
    if not value.strip():
        raise RowRefused("prompt_empty", f"`{key}` is empty")
    return [{"role": "user", "content": value}]


def _with_system(row: dict[str, Any], messages: list[Message], notes: Notes) -> list[Message]:
    key, system = _first(row, SYSTEM_KEYS)
    if not isinstance(system, str) or not system.strip():
        return messages
    if messages[0]["role"] in {"system", "developer"}:
        if messages[0]["content"] != system:
            notes.add("system_ignored", f"`{key}` was left out: the conversation has a system message of its own")
        return messages
    return [{"role": "system", "content": system}, *messages]


def _first(row: dict[str, Any], keys: tuple[str, ...]) -> tuple[str, Any]:
    """The first of `keys` that holds something, and what it holds; ("", None) where none does."""
    return next(((key, row[key]) for key in keys if row.get(key) is not None), ("", None))


def _label(row: dict[str, Any], keys: tuple[str, ...], longest: int, notes: Notes) -> str:
    key, value = _first(row, keys)
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise RowRefused(
            f"{keys[0]}_not_text", f"`{key}` is {kind_of(value)} ({quote(value)}); a string or a number is needed"
        )
    text = "" if value is None else str(value).strip()
    if "\x00" in text:
        raise RowRefused(f"{keys[0]}_not_text", f"`{key}` holds a NUL character ({quote(text)})")
    if len(text) > longest:
        notes.add(f"{keys[0]}_shortened", f"`{key}` has {len(text)} characters; its first {longest} were kept")
        text = text[:longest]
    return text


def _preview(messages: list[Message]) -> str:
    asked = next((m["content"] for m in reversed(messages) if m["role"] == "user"), messages[-1]["content"]) or ""
    return _UNPRINTED.sub(" ", asked[: 2 * MAX_PREVIEW]).strip()[:MAX_PREVIEW]


def _check_text(name: str, value: object, text: str) -> None:
    """Refuse half a surrogate pair: no tokenizer takes it, no database stores it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        path, found, at = _surrogate(name, value) or (name, "\ufffd", 0)
        message = f"invalid text: unpaired surrogate U+{ord(found):04X} at {path}, character {at + 1}"
        raise RowRefused("unpaired_surrogate", message) from None


def _surrogate(path: str, value: object) -> tuple[str, str, int] | None:
    if isinstance(value, str):
        return next(((path, char, at) for at, char in enumerate(value) if "\ud800" <= char <= "\udfff"), None)
    if isinstance(value, dict):
        pairs = ((f"a key of {path}", key, f"{path}.{key}", item) for key, item in value.items())
        return next((hit for a, key, b, item in pairs if (hit := _surrogate(a, key) or _surrogate(b, item))), None)
    if isinstance(value, list):
        return next((hit for i, item in enumerate(value) if (hit := _surrogate(f"{path}[{i}]", item))), None)
    return None
