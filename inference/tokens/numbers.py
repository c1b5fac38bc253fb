"""Numbers as they were written: what a template prints of them reaches the model, so `1.10` must not become 1.1.

Python's reader keeps a number's value and forgets its digits. Here a float whose digits Python would not print again carries
them, and is written with them into JSON, be it for storage or by a chat template.
"""

import json
import re
from typing import Any, Self


class SpelledFloat(float):
    """A number with the digits it was written with; `str()` gives them back. Its value may be infinite (`1e400`)."""

    __slots__ = ("spelling",)
    spelling: str

    def __new__(cls, spelling: str) -> Self:
        """The number that `spelling` writes."""
        made = super().__new__(cls, spelling)
        made.spelling = spelling
        return made

    def __str__(self) -> str:
        return self.spelling

    __repr__ = __str__

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # copies are made from the spelling
        return (self.spelling,)

    def __deepcopy__(self, _memo: object) -> "SpelledFloat":
        return self


def as_spelled(text: str) -> float:
    """The float that `text` writes; it carries its digits where Python would print others. For `parse_float`."""
    value = float(text)
    return value if repr(value) == text else SpelledFloat(text)


def as_whole(text: str) -> int | float:
    """The whole number that `text` writes; only of -0 would the sign be forgotten. For `parse_int`."""
    return SpelledFloat(text) if text == "-0" else int(text)


def holds_spelled(value: object) -> bool:
    """Whether a `SpelledFloat` is anywhere in a JSON value. Walks without recursion: depth may be a stranger's choice."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif isinstance(item, SpelledFloat):
            return True
    return False


def to_json(value: Any, **options: Any) -> str:
    """As `json.dumps(value, **options)`, but each `SpelledFloat` with its own digits."""
    plain = json.dumps(value, **options)
    if not holds_spelled(value):
        return plain
    mark = "#"
    while f'"{mark}:' in plain:  # a text in the value that looks like our mark
        mark += "#"
    spellings: list[str] = []

    def marked(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: marked(held) for key, held in item.items()}
        if isinstance(item, list | tuple):
            return [marked(held) for held in item]
        if isinstance(item, SpelledFloat):
            spellings.append(item.spelling)
            return f"{mark}:{len(spellings) - 1}"
        return item

    return re.sub(f'"{mark}:([0-9]+)"', lambda found: spellings[int(found[1])], json.dumps(marked(value), **options))
