"""What can go wrong between a conversation and its prompt without any error: looked for in every render."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from inference.tokens.declaration import TokenFormat
from inference.tokens.ids import Ids
from inference.tokens.rendering.messages import REASONING_KEYS, Message, Prepared, RenderWarning, texts_of
from inference.tokens.tokenizer import Tokenizer

_SHORT = 32  # a text this short may be found by accident
_NONE = re.compile(r"(?<![\w.])None(?![\w.])")
_REPR = re.compile(r"\{'\w+': ")


Tools = list[dict[str, Any]] | None


class Rendered(NamedTuple):
    """A render and what it was made of.

    `again` renders others in the same way, None where the template refuses. `tools_as_text`: the tools came to the template as
    a text among its arguments, whatever their list says.
    """

    tokenizer: Tokenizer
    declared: TokenFormat
    prepared: Prepared
    text: str
    ids: Ids
    again: Callable[[Sequence[Message], Tools], str | None]
    tools_as_text: bool = False


def check_render(rendered: Rendered) -> list[RenderWarning]:
    """Everything found, in the order a person should read it."""
    return [
        *_content_lost(rendered),
        *_reasoning_stripped(rendered),
        *_control_in_prompt(rendered),
        *_none_in_prompt(rendered),
        *_double_bos(rendered),
        *_text_changed(rendered),
    ]


def _think(rendered: Rendered) -> tuple[str, str] | None:
    think = rendered.declared.think
    return (think.open, think.close) if think else None


def _answer_part(rendered: Rendered, text: str) -> str:
    """An assistant's text without the reasoning in front of it, which templates drop on purpose."""
    think = _think(rendered)
    return text.rsplit(think[1], 1)[1] if think and think[1] in text else text


def _found(text: str, rendered: str) -> bool:
    wanted = text.strip()
    if not wanted or wanted in rendered:
        return True
    spellings = (json.dumps(wanted)[1:-1], json.dumps(wanted, ensure_ascii=False)[1:-1])
    return any(spelling in rendered for spelling in spellings)


def _content_lost(rendered: Rendered) -> Iterator[RenderWarning]:
    messages = rendered.prepared.messages
    lost: list[str] = []
    for where, text in texts_of(messages):
        if where.endswith(".reasoning_content"):
            continue
        index = int(where[len("messages[") : where.index("]")])
        wanted = _answer_part(rendered, text) if messages[index]["role"] == "assistant" else text
        if not _found(wanted, rendered.text):
            lost.append(where)
    lost += [where for where in _unmarked(rendered) if where not in lost]
    for where in lost:
        yield RenderWarning(
            "content_lost", f"{where} is not in the prompt: the chat template leaves it out or changes it."
        )
    yield from _tools_lost(rendered)


def _tools_lost(rendered: Rendered) -> Iterator[RenderWarning]:
    """Tools, looked for by a mark after their names (ASCII, since it may be put into JSON): `f` or `search` stand in many a text."""
    tools = [] if rendered.tools_as_text else rendered.prepared.tools or []
    marked = [
        {**tool, "function": {**tool["function"], "name": f"{tool['function']['name']}zq{at}qz"}}
        for at, tool in enumerate(tools)
    ]
    text = rendered.again(rendered.prepared.messages, marked) if tools else None
    for at, tool in enumerate(tools):
        name = tool["function"]["name"]
        if (name not in rendered.text) if text is None else (f"zq{at}qz" not in text):
            yield RenderWarning(
                "content_lost", f"The tool {name} is not in the prompt: the chat template leaves it out."
            )


def _unmarked(rendered: Rendered) -> list[str]:
    """Contents that could be found by accident (short ones, and repeated ones), looked for by a mark that cannot."""
    messages = rendered.prepared.messages
    contents = Counter(message.get("content") for message in messages)
    doubtful = [
        index
        for index, message in enumerate(messages)
        if isinstance(message.get("content"), str)
        and message["content"].strip()
        and (len(message["content"]) < _SHORT or contents[message["content"]] > 1)
    ]
    if not doubtful:
        return []
    marks = {index: f"⁂{index}⁂" for index in doubtful}
    changed: list[Message] = [
        {**message, "content": message["content"].rstrip() + marks[index]} if index in marks else message
        for index, message in enumerate(messages)
    ]
    text = rendered.again(changed, rendered.prepared.tools)
    if text is None:
        return []
    return [f"messages[{index}].content" for index, mark in marks.items() if mark not in text]


def _reasoning_stripped(rendered: Rendered) -> Iterator[RenderWarning]:
    """Reasoning of earlier turns, looked for by a mark at its end: a thought of a few words could be found by accident."""
    marked: dict[int, Message] = {}
    reasoned: dict[int, str] = {}
    for index, message in enumerate(rendered.prepared.messages):
        found = _with_mark(message, f"⁂{index}⁂", _think(rendered)) if message["role"] == "assistant" else None
        if found is not None:
            reasoned[index], marked[index] = found
    if not marked:
        return
    messages = [marked.get(index, message) for index, message in enumerate(rendered.prepared.messages)]
    text = rendered.again(messages, rendered.prepared.tools)
    for index, reasoning in reasoned.items():
        if (f"⁂{index}⁂" not in text) if text is not None else not _found(reasoning, rendered.text):
            yield RenderWarning("reasoning_stripped", f"The reasoning of messages[{index}] is not in the prompt.")


def _with_mark(message: Message, mark: str, think: tuple[str, str] | None) -> tuple[str, Message] | None:
    """(an assistant's reasoning, the message with `mark` at its end); None where there is no reasoning."""
    reasoning, content = message.get("reasoning_content"), message.get("content")
    if isinstance(reasoning, str):
        ended = reasoning.rstrip() + mark
        keys = [key for key in REASONING_KEYS if message.get(key) == reasoning]
        return (reasoning, {**message, **dict.fromkeys(keys, ended)}) if reasoning.strip() else None
    if think is None or not isinstance(content, str) or think[1] not in content:
        return None
    before, answer = content.rsplit(think[1], 1)
    reasoning = before.replace(think[0], "")
    return (
        (reasoning, {**message, "content": f"{before.rstrip()}{mark}{think[1]}{answer}"}) if reasoning.strip() else None
    )


def _control_in_prompt(rendered: Rendered) -> Iterator[RenderWarning]:
    think = set(_think(rendered) or ())
    pattern = rendered.tokenizer.control_pattern
    if pattern is None:
        return
    for where, text in texts_of(rendered.prepared.messages):
        index = int(where[len("messages[") : where.index("]")])
        own = think if rendered.prepared.messages[index]["role"] == "assistant" else set()
        found = sorted(set(pattern.findall(text)) - own)
        if found:
            listed = ", ".join(found[:5])
            yield RenderWarning(
                "control_in_prompt", f"{where} spells {listed}, which becomes a control token in the prompt."
            )


def _none_in_prompt(rendered: Rendered) -> Iterator[RenderWarning]:
    if "None" not in rendered.text and "{'" not in rendered.text:  # nearly every prompt: neither pattern can match
        return
    source = json.dumps([rendered.prepared.messages, rendered.prepared.tools], ensure_ascii=False, default=str)
    known = source + (rendered.tokenizer.template or "")
    for pattern, what in ((_NONE, "the word None"), (_REPR, "a Python dictionary")):
        found: list[Any] = pattern.findall(rendered.text)
        if len(found) > len(pattern.findall(known)):
            yield RenderWarning(
                "none_in_prompt", f"The prompt holds {what}, which stands in no message: a value was missing."
            )


def _double_bos(rendered: Rendered) -> Iterator[RenderWarning]:
    bos = rendered.tokenizer.bos_id
    if bos is not None and len(rendered.ids) > 1 and rendered.ids[0] == bos and rendered.ids[1] == bos:
        yield RenderWarning("double_bos", "The prompt begins with two begin-of-text tokens.")


def _text_changed(rendered: Rendered) -> Iterator[RenderWarning]:
    """A normaliser at work: the ids say another text than was rendered. Other styles than byte level add spaces of their own."""
    if rendered.tokenizer.vocabulary.style != "byte_level":
        return
    back = rendered.tokenizer.decode(rendered.ids)
    if back != rendered.text:
        at = next((at for at, pair in enumerate(zip(back, rendered.text, strict=False)) if pair[0] != pair[1]), 0)
        was, became = (json.dumps(text[at : at + 10]) for text in (rendered.text, back))
        yield RenderWarning(
            "text_changed",
            f"The tokenizer changes the text from character {at + 1} of the prompt on: {was} became {became}.",
        )
