"""JSON read with its places: which text each value was written as, and where the first error is.

Numbers stay text (`Number`): 12345678901234567890 and 1e400 keep their digits. NaN and Infinity are errors, as JSON says.
"""

import json
import re
from dataclasses import dataclass
from typing import TypeAlias, Union

JsonValue: TypeAlias = Union[bool, "Number", str, list["JsonValue"], dict[str, "JsonValue"], None]
_SPACE = re.compile(r"[ \t\r\n]*")


class Number(str):
    """A number exactly as written."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is written as a whole number (1, -7; also 1.0, as JSON Schema has it)."""
        return re.fullmatch(r"-?\d+(\.0+)?", self) is not None


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


def _no_constant(name: str) -> JsonValue:
    raise JsonError(f"{name} is not JSON", -1)


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_no_constant)


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
        raise JsonError(error.message, begin) from error
    except RecursionError as error:
        raise JsonError("Nested too deeply", begin) from error
    return Located(value, begin, end)


def read_whole(text: str, start: int = 0) -> Located:
    """The JSON value that is all of the text from `start`. Raises `JsonError`, also for text after it."""
    found = read_value(text, start)
    after = skip_space(text, found.end)
    if after != len(text):
        raise JsonError("Text follows the JSON value", after)
    return found


def read_members(text: str, start: int) -> dict[str, Located]:
    """The members of the JSON object at `start`, each with its place; of a repeated key the last. ToolCall on valid JSON only."""
    members: dict[str, Located] = {}
    at = skip_space(text, start + 1)
    while text[at] != "}":
        key = read_value(text, at)
        found = read_value(text, skip_space(text, key.end) + 1)  # past the colon
        members[str(key.value)] = found
        at = skip_space(text, found.end)
        if text[at] == ",":
            at = skip_space(text, at + 1)
    return members


def read_items(text: str, start: int) -> list[Located]:
    """The items of the JSON array at `start`, each with its place. ToolCall on valid JSON only."""
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
    match = _SPACE.match(text, at)
    return match.end() if match else at
