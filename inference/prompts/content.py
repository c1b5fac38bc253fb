"""The text of a message: a string, or a list of text parts; anything else cannot be said to a text model."""

from inference.prompts.jsontext import dumps
from inference.prompts.rows import Notes, RowRefused, kind_of, quote

TEXT_PARTS = {"text", "input_text", "output_text"}


def text_of(value: object, role: str, where: str, notes: Notes) -> str:
    """`value` as the message's text.

    Several text parts are joined by a line end; a tool's result given as a value becomes its JSON text. Both are noticed.

    Raises:
        RowRefused: not text: an image or sound part, a number, an object, nothing.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and (texts := _parts(value, role, where)) is not None:
        if len(texts) > 1:
            notes.add("content_parts_joined", f"{where}: {len(texts)} text parts were joined by line ends")
        else:
            notes.add(
                "content_parts_joined",
                f"{where}: the content was a list of one text part; its text was taken",
                counted=True,
            )
        return "\n".join(texts)
    if role == "tool" and value is not None:
        notes.add("tool_result_encoded", f"{where}: the tool's result is {kind_of(value)}; its JSON text was taken")
        return dumps(value)
    if value is None:
        raise RowRefused("content_missing", f"{where} (role {role}) has no content")
    raise RowRefused("content_not_text", f"{where} has {kind_of(value)} ({quote(value)}) as content; text is needed")


def _parts(parts: list[object], role: str, where: str) -> list[str] | None:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type", "text" if "text" in part else None) if isinstance(part, dict) else None
        if isinstance(part, dict) and kind in TEXT_PARTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif role == "tool":
            return None
        elif kind in TEXT_PARTS or not isinstance(kind, str):
            raise RowRefused("content_not_text", f"{where} has a content part without text ({quote(part)})")
        else:
            message = f"{where} has a content part of type {quote(kind)}: it needs a vision (or sound) run, and only text is read here"
            raise RowRefused("needs_vision", message)
    return texts
