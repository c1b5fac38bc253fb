"""Python literals read with their places, without Python's own parser: it loses digits, and deep nesting brings it down."""

import re

from inference.tokens.payloads.jsontext import JsonError, JsonValue, Located, Number

_DEEPEST = 100
_SPACE = re.compile(r"(?:[\s]|\\\n)*+")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*+(?:\.[\d_]*+)?|\.\d[\d_]*+)(?:[eE][+-]?\d++)?(?![\w.])")
_STRING = re.compile(
    r"""(?P<prefix>[rR]?)(?:"{3}(?P<long_double>(?:[^\\"]++|\\.|"(?!""))*+)"{3}|'{3}(?P<long_single>(?:[^\\']++|\\.|'(?!''))*+)'{3}"""
    r"""|"(?!"")(?P<double>(?:[^\\"\n]++|\\.)*+)"|'(?!'')(?P<single>(?:[^\\'\n]++|\\.)*+)')""",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d]\w*+")
_WORDS: dict[str, JsonValue] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<mark>.))",
    re.DOTALL,
)
_MARKS = {
    "\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_CLOSES = {"[": "]", "(": ")", "{": "}"}


def read_literal(text: str, start: int, depth: int = 0) -> Located:
    """The literal at `start` (whitespace skipped): numbers keep their digits, tuples read as lists. Raises `JsonError`.

    true, false and null count as well, since models write them where Python would not.
    """
    at = skip(text, start)
    mark = text[at : at + 1]
    if depth > _DEEPEST:
        raise JsonError("Nested too deeply", at)
    if mark in _CLOSES:
        return _container(text, at, depth)
    string = _STRING.match(text, at)
    if string:
        raw = next(part for part in string.group("long_double", "long_single", "double", "single") if part is not None)
        return Located(raw if string["prefix"] else _ESCAPE.sub(_unescaped, raw), at, string.end())
    number = _NUMBER.match(text, at)
    if number:
        return Located(Number(number[0]), at, number.end())
    word = _WORD.match(text, at)
    if word and word[0] in _WORDS:
        return Located(_WORDS[word[0]], at, word.end())
    if mark in {'"', "'"}:
        raise JsonError("A text that is not closed", at)
    raise JsonError("Nothing is here" if not mark else "Not a literal value", at)


def skip(text: str, at: int) -> int:
    """The first position from `at` that is not whitespace."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def read_word(text: str, at: int) -> str:
    """The identifier at `at`; empty where none is."""
    match = _WORD.match(text, at)
    return match[0] if match else ""


def end_of_string(text: str, at: int) -> int | None:
    """Where the string that begins at `at` ends; None where it does not."""
    match = _STRING.match(text, at)
    return match.end() if match else None


def _container(text: str, start: int, depth: int) -> Located:
    opening = text[start]
    closing = _CLOSES[opening]
    items: list[JsonValue] = []
    members: dict[str, JsonValue] = {}
    commas = 0
    at = skip(text, start + 1)
    while text[at : at + 1] != closing:
        item = read_literal(text, at, depth + 1)
        at = skip(text, item.end)
        if opening == "{":
            if text[at : at + 1] != ":":
                raise JsonError("A colon is wanted here", at)
            value = read_literal(text, at + 1, depth + 1)
            members[str(item.value)] = value.value
            at = skip(text, value.end)
        else:
            items.append(item.value)
        if text[at : at + 1] == ",":
            commas += 1
            at = skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise JsonError(f"A comma or {closing} is wanted here", at)
    if opening == "(" and len(items) == 1 and not commas:
        return Located(items[0], start, at + 1)
    return Located(members if opening == "{" else items, start, at + 1)


def _unescaped(match: re.Match[str]) -> str:
    if match["octal"]:
        return chr(int(match["octal"], 8))
    number = match["hex"] or match["short"] or match["long"]
    if number:
        point = int(number, 16)
        return chr(point) if point <= 0x10FFFF else match[0]  # noqa: PLR2004  (the last code point)
    return _MARKS.get(match["mark"], match[0])
