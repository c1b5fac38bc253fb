"""What of a conversation does not reach the prompt, or reaches it in another place than it stood."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from inference.tokens.rendering.marks import Seen
from inference.tokens.rendering.templates import Prepared
from inference.tokens.rendering.warning import RenderWarning

_SWITCH = re.compile(r"/(?:no_?)?think\b")
_INSTRUCTING = frozenset({"system", "developer"})


def find_losses(text: str, prepared: Prepared, seen: Sequence[Seen], *, tools_as_text: bool) -> Iterator[RenderWarning]:
    """What the render `text` leaves out. `tools_as_text`: the tools came to the template as a text among its arguments."""
    yield from _contents(text, prepared, seen)
    if not tools_as_text:
        yield from _tools(text, prepared, seen)
    yield from _reasoning(text, seen)
    yield from _moved(prepared, seen)


def stands_in(text: str, rendered: str) -> bool:
    """Whether a text stands in a render, as it is or as JSON writes it."""
    wanted = text.strip()
    if not wanted or wanted in rendered:
        return True
    spellings = (json.dumps(wanted)[1:-1], json.dumps(wanted, ensure_ascii=False)[1:-1])
    return any(spelling in rendered for spelling in spellings)


def _is_lost(seen: Seen, text: str) -> bool:
    """Whether a text is not in a render, or not as it was; a word that switches reasoning may go, if the template heeds it."""
    if seen.at == -1:
        return True
    return not stands_in(seen.item.text, text) and not all(
        stands_in(part, text) for part in _SWITCH.split(seen.item.text)
    )


def _contents(text: str, prepared: Prepared, seen: Sequence[Seen]) -> Iterator[RenderWarning]:
    gone = ""
    for one in seen:
        item = one.item
        if item.kind not in {"content", "call", "argument"} or not _is_lost(one, text):
            continue
        if item.kind == "call":
            if _is_in_id(text, prepared, one):
                continue
            gone = item.place.removesuffix(".name")
            told = f"The call of {item.text} in {gone} is not in the prompt: the chat template leaves its name out."
            yield RenderWarning("content_lost", told, item.index)
        elif not gone or not item.place.startswith(f"{gone}."):
            told = f"{item.place} is not in the prompt: the chat template leaves it out or changes it."
            yield RenderWarning("content_lost", told, item.index)


def _is_in_id(text: str, prepared: Prepared, seen: Seen) -> bool:
    """Kimi's templates write a call's id, `functions.NAME:0`, for its name."""
    place = int(seen.item.place.removesuffix("].name").rsplit("[", 1)[1])
    number = prepared.messages[seen.item.index]["tool_calls"][place].get("id")
    return isinstance(number, str) and seen.item.text in number and number in text


def _tools(text: str, prepared: Prepared, seen: Sequence[Seen]) -> Iterator[RenderWarning]:
    """Of tools only what is left out: many templates write them in a language of their own, line by line."""
    for index, tool in enumerate(prepared.tools or ()):
        name = tool["function"]["name"]
        own = [one for one in seen if one.item.index == index and one.item.kind in {"tool", "description", "parameter"}]
        lost = [one.item for one in own if one.at == -1 or (one.at is None and not stands_in(one.item.text, text))]
        if any(item.kind == "tool" for item in lost):
            yield RenderWarning(
                "content_lost", f"The tool {name} is not in the prompt: the chat template leaves it out."
            )
            continue
        parts = ["its description" for item in lost if item.kind == "description"]
        parts += [f"its parameter {item.text}" for item in lost if item.kind == "parameter"]
        if parts:
            more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""  # noqa: PLR2004  (as many as one reads)
            told = f"The tool {name} is in the prompt without {', '.join(parts[:3])}{more}."
            yield RenderWarning("tool_part_lost", told)


def _reasoning(text: str, seen: Sequence[Seen]) -> Iterator[RenderWarning]:
    """An earlier turn's reasoning, which many templates leave out on purpose, or write twice where it stands in two places."""
    by_message: dict[int, list[Seen]] = {}
    for one in seen:
        if one.item.kind == "reasoning":
            by_message.setdefault(one.item.index, []).append(one)
    for index, ones in by_message.items():
        there = [one for one in ones if not (one.at == -1 or (one.at is None and not stands_in(one.item.text, text)))]
        if not there:
            told = f"The reasoning of messages[{index}] is not in the prompt."
            yield RenderWarning("reasoning_stripped", told, index)
        elif sum(one.count for one in there) > 1:
            told = f"The reasoning of messages[{index}] is in the prompt more than once: it stands in a field and in the text, or the chat template repeats it."
            yield RenderWarning("reasoning_doubled", told, index)


def _moved(prepared: Prepared, seen: Sequence[Seen]) -> Iterator[RenderWarning]:
    """Instructions that the template puts elsewhere: they then hold for turns that they did not hold for."""
    places = {
        one.item.index: one.at for one in seen if one.item.kind == "content" and one.at is not None and one.at >= 0
    }
    others = [(number, at) for number, at in places.items() if prepared.messages[number]["role"] not in _INSTRUCTING]
    numbers = [number for number, _ in others]
    latest = list(accumulate((at for _, at in others), max))  # of these and those before
    earliest = list(accumulate((-at for _, at in reversed(others)), max))  # of these and those after, negated
    for index, at in places.items():
        role = prepared.messages[index]["role"]
        if role not in _INSTRUCTING:
            continue
        late, early = bisect_right(latest, at), len(others) - 1 - bisect_right(earliest, -at)
        if late < len(others) and numbers[late] < index:
            where = f"before messages[{numbers[late]}]"
        elif early >= 0 and numbers[early] > index:
            where = f"after messages[{numbers[early]}]"
        else:
            continue
        told = f"messages[{index}] (role {role}) stands {where} in the prompt: the chat template moves it."
        yield RenderWarning("system_moved", told, index)
