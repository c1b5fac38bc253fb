"""The raw token strip: one inline element per token, built by one plain string join.

What a reader sees may be decorated; what the page *holds* is the true text. Every mark (line ends, tabs, boxes around
invisible characters, bytes) is drawn by CSS from classes and attributes, so the strip's text content is exactly the decoded
text. HTML has one hole: a NUL cannot stand in a document, so it is an empty box `data-u="U+0000"` that the copy handler of
`strip.js` turns back into the character.

Everything here is hostile text: it reaches the page through `_escape` alone.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from markupsafe import Markup

from web.words import hex_bytes

CHUNK = 512
"""Most tokens in one chunk; a chunk is what the browser skips while it is off screen."""

_NARROW = 2
"""Characters that fit above the bytes of their tokens; more text stands before them."""

_UNSEEN = re.compile("[\ufffd\u034f\u115f\u1160\u17b4\u17b5\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Printable by Unicode's table, yet nothing to see: fillers, joiners and variation selectors."""

_MARKS = {
    "\n": "<b class=n></b>\n",
    "\t": "<b class=h></b>\t",
    "\r": "<b class=r>&#13;</b>",
    "\0": '<b class=u data-u="U+0000"></b>',
    "\ufffd": '<b class=u data-u="U+FFFD">\ufffd</b>',
}


class Piece(Protocol):
    """One token for display: the part of `inference.review.views.PieceView` that is drawn."""

    @property
    def index(self) -> int:
        """Position in its strip."""
        ...

    @property
    def id(self) -> int:
        """Token id."""
        ...

    @property
    def kind(self) -> str:
        """text, special, added, byte or unknown."""
        ...

    @property
    def bytes(self) -> str:
        """Its bytes, as hex."""
        ...

    @property
    def text(self) -> str:
        """What it adds to the decoded text."""
        ...

    @property
    def group(self) -> tuple[int, int] | None:
        """(position, size) among the tokens that make one character together."""
        ...


class Span(Protocol):
    """A half-open token range with a kind: a segment."""

    @property
    def kind(self) -> str:
        """What it is."""
        ...

    @property
    def start(self) -> int:
        """First token."""
        ...

    @property
    def end(self) -> int:
        """First token after it."""
        ...


def strip(
    pieces: Sequence[Piece],
    segments: Sequence[Span],
    *,
    prefix: str = "t",
    marked: tuple[int, int] | None = None,
    flagged: Sequence[tuple[int, int, str]] = (),
) -> Markup:
    """The chunks of one strip.

    Args:
        pieces: every token in order; `pieces[i].index == i`.
        segments: half-open ranges that tile `pieces`.
        prefix: of the element ids: `t` for output tokens, `p` for prompt tokens.
        marked: a half-open range to highlight (a permalink's).
        flagged: half-open ranges that checks cite, each with a class: `f` (cited) or `k` (only spells a special token).

    Returns:
        `div.ch` elements of at most `CHUNK` tokens, none of which crosses a segment's edge.
    """
    extra = _classes(len(pieces), marked, flagged)
    memo: dict[str, tuple[str, str]] = {}
    out: list[str] = []
    for number, segment in enumerate(segments):
        start = segment.start
        while start < segment.end:
            end, soft = _cut(pieces, start, segment.end)
            out.append(f'<div class="ch {_escape(segment.kind)}{" soft" if soft else ""}" data-s={number}>')
            _chunk(out, pieces, start, end, prefix, extra, memo)
            out.append("</div>")
            start = end
    return Markup("".join(out))  # noqa: S704  (every text went through _escape)


def text_mark(text: str) -> Markup:
    """A piece of text with its invisible characters boxed, for places outside the strip; the text content stays true."""
    return Markup(_inner(text))  # noqa: S704  (_inner escapes)


def _classes(count: int, marked: tuple[int, int] | None, flagged: Sequence[tuple[int, int, str]]) -> dict[int, str]:
    """Classes that hang on a position, not on a text: sparse, since most tokens have none."""
    extra: dict[int, str] = {}
    for start, end, name in flagged:
        for index in range(max(start, 0), min(end, count)):
            extra[index] = f"{extra[index]} {name}" if index in extra else name
    if marked is not None:
        for index in range(max(marked[0], 0), min(marked[1], count)):
            extra[index] = f"{extra[index]} m" if index in extra else "m"
    return extra


def _cut(pieces: Sequence[Piece], start: int, limit: int) -> tuple[int, bool]:
    """Where the chunk from `start` ends, and whether that shows as a break the text does not have."""
    if limit - start <= CHUNK:
        return limit, False
    end = start + CHUNK
    for index in range(end, start + CHUNK // 2, -1):
        if pieces[index - 1].text.endswith("\n"):
            return index, False
    while end > start + 1 and _inside(pieces[end]):
        end -= 1  # the tokens of one character stay together
    return (end if end > start + 1 else start + CHUNK), True


def _inside(piece: Piece) -> bool:
    return piece.group is not None and piece.group[0] > 0


def _broken(piece: Piece) -> bool:
    """Whether its U+FFFD stands for bytes that are no UTF-8 (and not for a U+FFFD that the model wrote)."""
    return "\ufffd" in piece.text and "efbfbd" not in piece.bytes.lower()


def _chunk(
    out: list[str],
    pieces: Sequence[Piece],
    start: int,
    end: int,
    prefix: str,
    extra: dict[int, str],
    memo: dict[str, tuple[str, str]],
) -> None:
    open_until = -1
    for index in range(start, end):
        piece = pieces[index]
        text = piece.text
        more = extra.get(index)
        if piece.group is not None or piece.kind == "byte" or ("\ufffd" in text and _broken(piece)):
            if piece.group is not None and piece.group[1] > 1 and open_until < 0:
                open_until = min(index + piece.group[1] - piece.group[0], end)
                wide = " w" if len(text.strip()) > _NARROW else ""
                out.append(f'<span class="g{wide}"><b class=c>{_inner(text)}</b>')
                out.append(_bytes_chip(piece, prefix, more, ""))
            else:
                out.append(_bytes_chip(piece, prefix, more, text))
            if index + 1 == open_until:
                out.append("</span>")
                open_until = -1
            continue
        known = memo.get(text)
        if known is None:
            known = memo[text] = (_spacing(text), _inner(text))
        names = known[0]
        if piece.kind != "text":
            names = _KINDS.get(piece.kind, "q")
        if more is not None:
            names = f"{names} {more}" if names else more
        if names:
            out.append(f'<i id={prefix}{index} data-i={piece.id} class="{names}">{known[1]}</i>')
        else:
            out.append(f"<i id={prefix}{index} data-i={piece.id}>{known[1]}</i>")
    if open_until >= 0:
        out.append("</span>")


_KINDS = {"special": "x", "added": "x a", "pad": "x", "unknown": "q"}


def _bytes_chip(piece: Piece, prefix: str, more: str | None, text: str) -> str:
    """A token that is shown by its bytes, then by its text where that can be seen: a replacement character is held, not drawn."""
    shown = hex_bytes(piece.bytes)
    broken = _broken(piece)
    names = "y" + (" bad" if broken else "") + (f" {more}" if more else "")
    part = "" if piece.group is None else f" data-g={piece.group[0] + 1}/{piece.group[1]}"
    inner = f"<b class=o>{_inner(text)}</b>" if broken else _inner(text)
    return f'<i id={prefix}{piece.index} data-i={piece.id} data-b="{_escape(shown)}"{part} class="{names}">{inner}</i>'


def _spacing(text: str) -> str:
    if not text.startswith(" "):
        return "" if text else "e"
    return "s ss" if not text.strip(" ") else "s"


def _inner(text: str) -> str:
    if text.isprintable() and _UNSEEN.search(text) is None:
        return _escape(text)
    return "".join(_character(char) for char in text)


def _character(char: str) -> str:
    mark = _MARKS.get(char)
    if mark is not None:
        return mark
    if char.isprintable() and _UNSEEN.match(char) is None:
        return _escape(char)
    return f'<b class=u data-u="U+{ord(char):04X}">{char}</b>'


def _escape(text: str) -> str:
    if "&" in text or "<" in text or ">" in text or '"' in text:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return text
