"""A conversation with a mark at the end of every text in it: rendered again, it tells what of it the template writes, and where.

A short text (`f`, `42`, `search`, a name that the list of tools holds too) is found in many a prompt by accident; a mark is not.
Marks are ASCII without anything that JSON would escape, and a number's mark is a number, so that templates go their usual way.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from inference.tokens.numbers import to_json
from inference.tokens.rendering.messages import REASONING_KEYS, read_arguments
from inference.tokens.rendering.templates import Message, Prepared

Kind = Literal["content", "reasoning", "call", "argument", "tool", "description", "parameter"]
KINDS: Final[tuple[Kind, ...]] = ("content", "reasoning", "call", "argument", "tool", "description", "parameter")
_GROUPS: Final[tuple[tuple[Kind, ...], ...]] = (KINDS[:2], KINDS[2:4], KINDS[4:])
THINK = ("<think>", "</think>")
_STEM, _NUMBER = "zq", "7351"


@dataclass(frozen=True, slots=True)
class Marked:
    """One text of the conversation: where it stands, the text, and the mark at its end (None: it cannot have one).

    `index`: of the message or, where `kind` is of a tool, of the tool.
    """

    kind: Kind
    index: int
    place: str
    text: str
    mark: str | None


class Marks:
    """Marks a conversation; `found` lists every text in it, in order."""

    def __init__(self, text: str, think: tuple[str, str] | None, kinds: Collection[Kind] = KINDS) -> None:
        """`text`: what the marks must not be in. `think`: the family's think delimiters. `kinds`: of the texts that are marked."""
        self.found: list[Marked] = []
        self._think = think
        self._kinds = kinds
        self._stem, self._number = _STEM, _NUMBER
        while self._stem in text:
            self._stem += "q"
        while self._number in text:
            self._number += "1"

    def message(self, index: int, message: Message) -> Message:
        """The message, its texts marked."""
        marked = dict(message)
        content = message.get("content")
        at = f"messages[{index}]"
        reasoning = message.get("reasoning_content")
        if isinstance(reasoning, str) and reasoning.strip():
            ended = self._ended("reasoning", index, f"{at}.reasoning_content", reasoning)
            marked |= {key: ended for key in REASONING_KEYS if message.get(key) == reasoning}
        if isinstance(content, str) and content.strip():
            marked["content"] = self._content(index, f"{at}.content", content, assistant=message["role"] == "assistant")
        if message.get("tool_calls"):
            marked["tool_calls"] = [
                self._call(index, f"{at}.tool_calls[{place}]", call) for place, call in enumerate(message["tool_calls"])
            ]
        return marked

    def tool(self, index: int, tool: Mapping[str, Any]) -> dict[str, Any]:
        """The tool, its name, its description and the names of its parameters marked."""
        function = dict(tool["function"])
        place = f"tools[{index}]"
        function["name"] = self._ended("tool", index, place, function["name"])
        if isinstance(function.get("description"), str) and function["description"].strip():
            function["description"] = self._ended("description", index, f"{place}.description", function["description"])
        schema = function.get("parameters")
        if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
            properties = {
                self._ended("parameter", index, f"{place}.parameters.{name}", str(name)): value
                for name, value in schema["properties"].items()
            }
            function["parameters"] = {**schema, "properties": properties}
        return {**tool, "function": function}

    def seen_in(self, rendered: str) -> Iterator["Seen"]:
        """Every text, and where its mark stands in a render; all marks are looked for at once."""
        places: dict[str, list[int]] = {}
        for match in re.finditer(rf"{self._stem}\d+qz|{self._number}\d+\.4613", rendered):
            places.setdefault(match[0], []).append(match.start())
        for item in self.found:
            at = places.get(item.mark or "", [])
            first = at[0] if at else -1
            yield Seen(item, None if item.mark is None else first, len(at))

    def _ended(self, kind: Kind, index: int, place: str, text: str) -> str:
        if kind not in self._kinds:
            self.found.append(Marked(kind, index, place, text, None))
            return text
        mark = f"{self._stem}{len(self.found)}qz"
        self.found.append(Marked(kind, index, place, text, mark))
        return text.rstrip() + mark

    def _content(self, index: int, place: str, content: str, *, assistant: bool) -> str:
        think = self.think_of(content) if assistant else None
        if think is None:
            return self._ended("content", index, place, content)
        before, answer = content.rsplit(think[1], 1)
        if reasoning := before.replace(think[0], "").strip():
            before = before.rstrip() + self._ended("reasoning", index, place, reasoning)[len(reasoning) :]
        ended = self._ended("content", index, place, answer) if answer.strip() else answer
        return f"{before}{think[1]}{ended}"

    def think_of(self, content: str) -> tuple[str, str] | None:
        """The delimiters of reasoning in an assistant's text: the family's, or those that templates of many know."""
        return next((pair for pair in (self._think, THINK) if pair and pair[1] in content), None)

    def _call(self, index: int, place: str, call: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(call["function"])
        function["name"] = self._ended("call", index, f"{place}.name", function["name"])
        given = function["arguments"]
        value = read_arguments(given)
        where = f"{place}.arguments"
        if not isinstance(value, dict):
            function["arguments"] = self._leaf(index, where, given)
        elif isinstance(given, str):
            function["arguments"] = to_json(self._leaf(index, where, value), ensure_ascii=False) if value else given
        else:
            function["arguments"] = self._leaf(index, where, value)
        return {**call, "function": function}

    def _leaf(self, index: int, place: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            made = {}
            for key, item in value.items():
                if item is not None:  # of an argument that is null a template may well leave out the name too
                    self.found.append(Marked("argument", index, f"{place}.{key}", str(key), None))
                made[key] = self._leaf(index, f"{place}.{key}", item)
            return made
        if isinstance(value, list):
            return [self._leaf(index, f"{place}[{at}]", item) for at, item in enumerate(value)]
        if isinstance(value, str) and value.strip():
            return self._ended("argument", index, place, value)
        if isinstance(value, int | float):
            spelled = "" if isinstance(value, bool) else to_json(value)
            mark = f"{self._number}{len(self.found):05}.4613" if "argument" in self._kinds else None
            self.found.append(Marked("argument", index, place, spelled, mark))
            return float(mark) if mark else value
        return value


@dataclass(frozen=True, slots=True)
class Seen:
    """A text of the conversation, and the place of its mark in a render: -1 where it is not there, None where it had no mark."""

    item: Marked
    at: int | None
    count: int


Again = Callable[[Sequence[Message], list[dict[str, Any]] | None], str | None]


def look(text: str, prepared: Prepared, think: tuple[str, str] | None, again: Again) -> list[Seen]:
    """Every text of the conversation, looked for in one more render; in three of them where the template refuses the one.

    `text` is the render, `again` renders another conversation in the same way (None: refused).
    """
    seen = _look(text, prepared, think, again, KINDS)
    if seen is not None:
        return seen
    found: list[Seen] = []
    for kinds in _GROUPS:
        part = _look(text, prepared, think, again, kinds)
        if part is None:
            marks = Marks(text, think, ())
            _mark(marks, prepared)
            part = [Seen(item, None, 0) for item in marks.found]
        found += [item for item in part if item.item.kind in kinds]
    return sorted(found, key=lambda item: item.item.kind in _GROUPS[2])


def _look(
    text: str, prepared: Prepared, think: tuple[str, str] | None, again: Again, kinds: Collection[Kind]
) -> list[Seen] | None:
    marks = Marks(text, think, kinds)
    other = again(*_mark(marks, prepared))
    return None if other is None else list(marks.seen_in(other))


def _mark(marks: Marks, prepared: Prepared) -> Prepared:
    marked = [marks.message(index, message) for index, message in enumerate(prepared.messages)]
    return Prepared(marked, [marks.tool(index, tool) for index, tool in enumerate(prepared.tools or ())] or None)
