"""The values that travel from a file reader to the database: raw rows, refused rows, prompts, and what is said about them.

They stand apart from readers and shapes so that neither has to know the other.
"""

import json
from dataclasses import dataclass, field

MAX_QUOTE = 80
"""Longest quotation of an offending value, in characters."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something done to, or seen in, a row that was taken all the same.

    `counted` marks what is normal and frequent (an answer left out): it is summed up for the whole upload, and only its first
    row is listed, so that a million of them cannot hide one real warning.
    """

    code: str
    message: str
    counted: bool = False


class RowRefused(Exception):  # noqa: N818  (named as the other refusals are)
    """This row cannot be used; the others can."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class FileBroken(Exception):  # noqa: N818
    """Nothing after this point of the file can be read; `line` is the row at which it broke."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as plain Python values (dict, list, str, int, float, bool, None), shape not yet looked at."""

    line: int
    value: object
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """One row that is not even a value: bad JSON, bad UTF-8, too long."""

    line: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One usable prompt, as it is stored: `messages` and `tools` are JSON text."""

    line: int
    source_id: str
    category: str
    preview: str
    messages: str
    tools: str | None
    notices: tuple[Notice, ...] = ()


@dataclass(slots=True)
class Notes:
    """Collects the notices of one row while its shape is read."""

    items: list[Notice] = field(default_factory=list)

    def add(self, code: str, message: str, *, counted: bool = False) -> None:
        """Remember one."""
        self.items.append(Notice(code, message, counted))


def quote(value: object, limit: int = MAX_QUOTE) -> str:
    """A value as a person would find it in the file, cut to `limit` characters and safe to store and show anywhere."""
    if isinstance(value, bytes):
        text = value[: limit * 4 + 4].decode("utf-8", "backslashreplace")
    elif isinstance(value, str):
        text = json.dumps(value[: limit + 1], ensure_ascii=False)
    elif isinstance(value, dict | list):
        text = f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
        return f"{text} {'keys' if isinstance(value, dict) else 'items'}"
    elif isinstance(value, bool) or value is None:
        text = json.dumps(value)
    else:
        text = str(value)
    text = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[:limit] + "…"


def kind_of(value: object) -> str:
    """What JSON calls a value: for sentences such as "`prompt` is a number"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "not a JSON value"
