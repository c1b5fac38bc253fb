"""What can go wrong between a conversation and its prompt without any error: looked for in every render."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inference.tokens.declaration import TokenFormat
from inference.tokens.ids import Ids
from inference.tokens.numbers import to_json
from inference.tokens.rendering.loss import find_losses
from inference.tokens.rendering.marks import Again, Seen, look
from inference.tokens.rendering.python import find_python
from inference.tokens.rendering.templates import Message, Prepared
from inference.tokens.rendering.warning import RenderWarning
from inference.tokens.tokenizer import Tokenizer

_SPACES = re.compile(r"\s+")


class Rendered(NamedTuple):
    """A render and what it was made of.

    `again` renders others in the same way, None where the template refuses. `tools_as_text`: the tools came to the template as
    a text among its arguments, whatever their list says. `wording`: the template's own words.
    """

    tokenizer: Tokenizer
    declared: TokenFormat
    prepared: Prepared
    text: str
    ids: Ids
    again: Again
    wording: str
    tools_as_text: bool


def check_render(rendered: Rendered) -> list[RenderWarning]:
    """Everything found, in the order a person should read it."""
    text, prepared = rendered.text, rendered.prepared
    seen = look(text, prepared, _think(rendered.declared), rendered.again)
    return [
        *find_losses(text, prepared, seen, tools_as_text=rendered.tools_as_text),
        *_control_in_prompt(rendered, seen),
        *find_python(text, prepared, rendered.wording, rendered.again),
        *_double_bos(rendered),
        *_tool_without_call(prepared.messages, rendered.declared),
        *_text_changed(rendered),
    ]


def _think(declared: TokenFormat) -> tuple[str, str] | None:
    return (declared.think.open, declared.think.close) if declared.think else None


def _own(declared: TokenFormat) -> frozenset[str]:
    """The delimiters that an assistant's turn may hold as its text: they are what the model itself wrote there."""
    calls = declared.calls
    found = {text for pair in declared.pairs() for text in pair}
    return frozenset(found | {calls.begin, calls.separator or "", *calls.inner} if calls else found)


def _control_in_prompt(rendered: Rendered, seen: Sequence[Seen]) -> Iterator[RenderWarning]:
    pattern = rendered.tokenizer.control_pattern
    if pattern is None:
        return
    own = _own(rendered.declared)
    for one in seen:
        item = one.item
        if item.kind in {"tool", "description", "parameter"}:
            continue
        found = _control(rendered, pattern, item.text)
        if rendered.prepared.messages[item.index]["role"] == "assistant":
            found -= own
        if found:
            listed = ", ".join(sorted(found)[:5])
            told = f"{item.place} spells {listed}, which becomes a control token in the prompt."
            yield RenderWarning("control_in_prompt", told, item.index)
    for tool in rendered.prepared.tools or ():
        if found := _control(rendered, pattern, to_json(tool, ensure_ascii=False)):
            listed = ", ".join(sorted(found)[:5])
            told = f"The tool {tool['function']['name']} spells {listed}, which becomes a control token in the prompt."
            yield RenderWarning("control_in_prompt", told)


def _control(rendered: Rendered, pattern: re.Pattern[str], text: str) -> set[str]:
    """The control tokens spelled in a text.

    An added token that neither the tokenizer flags as special nor the family or its template knows (Gemma has `<table>`) is a
    word like any other.
    """
    return {found for found in pattern.findall(text) if _is_control(rendered, found)}


def _is_control(rendered: Rendered, found: str) -> bool:
    tokenizer, declared = rendered.tokenizer, rendered.declared
    if tokenizer.id_of(found) in tokenizer.special_ids or found in (tokenizer.template or ""):
        return True
    return found in declared.markers() or found in declared.never_in_answer


def _double_bos(rendered: Rendered) -> Iterator[RenderWarning]:
    bos = rendered.tokenizer.bos_id
    if bos is not None and len(rendered.ids) > 1 and rendered.ids[0] == bos and rendered.ids[1] == bos:
        yield RenderWarning("double_bos", "The prompt begins with two begin-of-text tokens.")


def _tool_without_call(messages: Sequence[Message], declared: TokenFormat) -> Iterator[RenderWarning]:
    """Results of tools that nobody asked for: the conversation lacks a call, or it is not where it was."""
    begin = declared.calls.begin if declared.calls else None
    due = 0
    for index, message in enumerate(messages):
        if message["role"] != "tool":
            content = message.get("content") or ""
            due = len(message.get("tool_calls") or ()) or (content.count(begin) if begin else 0)
            continue
        if due == 0:
            told = f"messages[{index}] is a tool's result, but no call before it waits for one."
            yield RenderWarning("tool_without_call", told, index)
        due = max(0, due - 1)


def _text_changed(rendered: Rendered) -> Iterator[RenderWarning]:
    """A normaliser at work: the ids say another text than was rendered. A SentencePiece adds spaces of its own: they do not count."""
    style = rendered.tokenizer.vocabulary.style
    if style == "literal":
        return
    was, became = rendered.text, rendered.tokenizer.decode(rendered.ids)
    if was == became:
        return
    if style == "spaced":
        was, became = (_SPACES.sub("", text) for text in (was, became))
    if was != became:
        pairs = enumerate(zip(was, became, strict=False))
        at = next((at for at, (one, other) in pairs if one != other), min(len(was), len(became)))
        old, new = (json.dumps(text[at : at + 10]) for text in (was, became))
        place = f" from character {at + 1} of the prompt on" if style == "byte_level" else ""
        yield RenderWarning("text_changed", f"The tokenizer changes the text{place}: {old} became {new}.")
