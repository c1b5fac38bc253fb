"""JSON read with its places: which text each value was written as, and where the first error is.

Numbers stay text (`Number`): 12345678901234567890 and 1e400 keep their digits. NaN and Infinity are errors, as JSON says.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

JsonValue: TypeAlias = Union[bool, "Number", str, list["JsonValue"], dict[str, "JsonValue"], None]
_SPACES = frozenset(" \t\r\n")
_SPACE = re.compile(r"[ \t\r\n]*+")
_CONSTANT = re.compile(r'"(?:[^"\\]++|\\.)*+"|(?P<constant>NaN|-?Infinity)', re.DOTALL)


class Number(str):
    """A number exactly as written."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is written as a whole number (1, -7; also 1.0, as JSON Schema has it)."""
        return re.fullmatch(r"-?\d+(\.0+)?", self) is not None


class RawText(str):
    """A value written as bare text, without quotes: whether it is a text, a number or null, the tool's schema says."""

    __slots__ = ()


class Repeating(dict[str, JsonValue]):
    """An object that gives one of its keys more than once; the last value stands."""


class JsonError(ValueError):
    """Where (a code-point offset) and what the first error is."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@dataclass(frozen=True)
class Located:
    """A value and the range of the text it was read from."""

    value: JsonValue
    start: int
    end: int


@dataclass(frozen=True)
class Member:
    """A key, where it stands, and its value; None where the value cannot be read, `start` is where it begins."""

    key: str
    at: int
    start: int
    found: Located | None


def _no_constant(name: str) -> JsonValue:
    raise JsonError(f"{name} is not JSON", -1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeating(found)


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_no_constant, object_pairs_hook=_object
)


def read_value(text: str, start: int = 0) -> Located:
    """The JSON value at `start` (whitespace skipped), whatever follows it. Raises `JsonError`."""
    begin = skip_space(text, start)
    if begin == len(text):
        raise JsonError("Nothing is here", begin)
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        raise JsonError(re.sub(r"( starting)? at$", "", error.msg), error.pos) from error
    except JsonError as error:
        raise JsonError(error.message, _first_constant(text, begin)) from error
    except RecursionError as error:
        raise JsonError("Nested too deeply", begin) from error
    return Located(value, begin, end)


def _first_constant(text: str, start: int) -> int:
    """Where the first NaN or Infinity outside of a string stands; all before it has been read as JSON."""
    return next((match.start() for match in _CONSTANT.finditer(text, start) if match["constant"]), start)


def read_whole(text: str, start: int = 0) -> Located:
    """The JSON value that is all of the text from `start`. Raises `JsonError`, also for text after it."""
    found = read_value(text, start)
    after = skip_space(text, found.end)
    if after != len(text):
        raise JsonError("Text follows the JSON value", after)
    return found


def scan_members(text: str, start: int) -> list[Member]:
    """The members of the object that begins at `start`, each with its place, as far as they can be read. Never raises."""
    members: list[Member] = []
    at = skip_space(text, start + 1)
    while text[at : at + 1] == '"':
        try:
            key = read_value(text, at)
        except JsonError:
            break
        colon = skip_space(text, key.end)
        if text[colon : colon + 1] != ":":
            break
        begin = skip_space(text, colon + 1)
        try:
            found = read_value(text, begin)
        except JsonError:
            members.append(Member(str(key.value), at, begin, None))
            break
        members.append(Member(str(key.value), at, begin, found))
        at = skip_space(text, found.end)
        if text[at : at + 1] != ",":
            break
        at = skip_space(text, at + 1)
    return members


def repeated_key(text: str, start: int) -> tuple[str, int] | None:
    """The first key of the object at `start` that was there before, and where it stands the second time."""
    met: set[str] = set()
    for member in scan_members(text, start):
        if member.key in met:
            return member.key, member.at
        met.add(member.key)
    return None


def read_items(text: str, start: int) -> list[Located]:
    """The items of the JSON array at `start`, each with its place. To be called on valid JSON only."""
    items: list[Located] = []
    at = skip_space(text, start + 1)
    while text[at] != "]":
        items.append(read_value(text, at))
        at = skip_space(text, items[-1].end)
        if text[at] == ",":
            at = skip_space(text, at + 1)
    return items


def skip_space(text: str, at: int) -> int:
    """The first position from `at` that is not JSON whitespace."""
    if text[at : at + 1] not in _SPACES:
        return at
    match = _SPACE.match(text, at)
    return match.end() if match else at
