"""JSON that keeps what matters to token ids: key order and the spelling of numbers.

Python's parser reads `1.10` as 1.1, `1e400` as infinity and the second of two equal keys as if the first had never been;
templates print what they are given, so each of these would change a prompt's ids. Here a number whose digits Python would not
print again keeps them, and a double key, a constant that is not JSON, or a nesting no one writes by hand is told to the caller.
"""

import json
from json.encoder import encode_basestring
from typing import Any

from inference.prompts.rows import RowRefused, quote
from inference.tokens.numbers import SpelledFloat, as_spelled, as_whole

MAX_INT_DIGITS = 4300
"""Python refuses longer integers, since converting them takes time that grows with the square of the digits."""

MAX_DEPTH = 100
"""Deepest nesting of a stored value: far above real data, far below the recursion limit of whoever reads it next."""


def _integer(text: str) -> int | float:
    if len(text) > MAX_INT_DIGITS:
        raise RowRefused(
            "number_too_long", f"a number of {len(text)} digits ({text[:20]}…); at most {MAX_INT_DIGITS} are read"
        )
    return as_whole(text)


def _constant(text: str) -> float:
    raise RowRefused("number_not_json", f"{text} is not JSON; write null, or leave the key out")


class JsonReader:
    """Parses one value at a time and remembers, for the last one, the keys that appeared twice in one object.

    Not for several threads at once. `exact` turns true when any number so far needs `dumps(…, exact=True)`.
    """

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self.exact = False
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_float=self._float, parse_int=self._int, parse_constant=_constant
        )

    def parse(self, text: str) -> Any:
        """The value of `text`.

        Raises:
            RowRefused: not JSON, a number no one can read, or nested too deep; the sentence quotes the place.
        """
        self.duplicates = []
        try:
            return self._decoder.decode(text)
        except json.JSONDecodeError as error:
            raise _not_json(text, error) from None
        except RecursionError:
            raise RowRefused("nested_too_deep", f"nested too deep; at most {MAX_DEPTH} levels are kept") from None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            self.duplicates += [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        return made

    def _float(self, text: str) -> float:
        value = as_spelled(text)
        self.exact = self.exact or type(value) is SpelledFloat
        return value

    def _int(self, text: str) -> int | float:
        value = _integer(text)
        self.exact = self.exact or type(value) is SpelledFloat
        return value


def _not_json(text: str, error: json.JSONDecodeError) -> RowRefused:
    if error.msg == "Extra data" and text[error.pos :].strip() == ",":
        cause = "a comma after the value; nothing may follow it on its line"
    elif error.msg == "Extra data":
        cause = f"a second value after the first at column {error.pos + 1}"
    else:
        cause = f"{error.msg} at column {error.pos + 1}"
    near = text[max(0, error.pos - 20) : error.pos + 20]
    return RowRefused("not_json", f"not JSON: {cause}, near {quote(near)}")


_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False)
_stored = json.JSONDecoder(parse_float=as_spelled, parse_int=_integer)


def dumps(value: object, *, exact: bool = True) -> str:
    """Compact JSON text, keys in their order, each `SpelledFloat` with its own digits (`exact=False`: there is none).

    Raises:
        RowRefused: a value that JSON cannot say (NaN, bytes, a date), or nesting beyond `MAX_DEPTH`.
    """
    try:
        text = _encode(value) if exact else _plain.encode(value)
    except (ValueError, TypeError) as error:
        raise RowRefused("value_not_json", f"a value that JSON cannot hold: {error}") from None
    except RecursionError:
        raise RowRefused("nested_too_deep", f"nested too deep; at most {MAX_DEPTH} levels are kept") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and depth_of(value) > MAX_DEPTH:
        raise RowRefused("nested_too_deep", f"nested {depth_of(value)} levels deep; at most {MAX_DEPTH} are kept")
    return text


def _encode(value: object) -> str:
    if isinstance(value, SpelledFloat):
        return value.spelling
    if isinstance(value, dict):
        return "{" + ",".join(f"{_encode_key(key)}:{_encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_encode, value)) + "]"
    return _plain.encode(value)


def _encode_key(key: object) -> str:
    return encode_basestring(str(key))


def loads(text: str) -> Any:
    """The value of stored text, numbers with their digits kept."""
    return _stored.decode(text)


def depth_of(value: object) -> int:
    """How deep lists and objects are nested; 0 for a plain value. Walks without recursion."""
    deepest, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        deepest += 1
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return deepest


def shown(value: object) -> Any:
    """A stored value for an answer over HTTP, which may not say infinity: numbers beyond a double become their digits as text."""
    if isinstance(value, SpelledFloat):
        return value.spelling if value in {float("inf"), float("-inf")} else float(value)
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    return value
