"""Payloads written as text: `⟦…⟧` stands around a token of its own, all else is spelled with ordinary ids."""

import re
from collections.abc import Collection

from inference.tokens.payloads.payload import Payload

_TOKEN = re.compile(r"⟦(.*?)⟧", re.DOTALL)


def payload(text: str, separator: str | None = None, tools: Collection[str] = ()) -> Payload:
    """The text as a payload. Its tokens are the marks; the first that is `separator` splits it instead.

    Without a token in it (the separator aside), the vocabulary has none for inner delimiters.
    """
    plain, marks, split = "", [], None
    at = 0
    for match in _TOKEN.finditer(text):
        plain += text[at : match.start()]
        start, at = len(plain), match.end()
        plain += match[1]
        if match[1] == separator and split is None:
            split = (start, len(plain))
        else:
            marks.append((start, len(plain), match[1]))
    plain += text[at:]
    parts = (plain,) if split is None else (plain[: split[0]], plain[split[1] :])
    offset = split[1] if split else 0
    return Payload(plain, parts, offset, frozenset(tools), tuple(marks) or None)
