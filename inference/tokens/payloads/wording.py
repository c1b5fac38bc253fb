"""How generated text is shown inside a sentence: short, on one line, and storable anywhere."""

import re

_SEEN = re.compile(r"\S")
_NAME = re.compile(r"\w[\w.:/@+-]*+")


def shown(text: str, most: int = 80) -> str:
    r"""The first `most` characters; what does not print (control characters, half characters from \ud800) as an escape."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text[:most]
    )


def is_name(text: str) -> bool:
    """Whether this can be a tool's name, the tools unknown: one word of letters, digits and `_.:/@+-`, no sign first."""
    return _NAME.fullmatch(text) is not None


def is_whole(text: str) -> bool:
    """Whether every character can be stored and sent: JSON and Python escapes can write half a character."""
    return not any("\ud800" <= mark <= "\udfff" for mark in text)


def first_word(text: str, start: int, end: int | None = None) -> int:
    """Where the first character in text[start:end] stands that is not whitespace; the end where none does."""
    stop = len(text) if end is None else end
    match = _SEEN.search(text, start, stop)
    return match.start() if match else stop
