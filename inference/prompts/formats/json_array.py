"""One JSON array, read as a stream: the bytes of each item are cut out by counting brackets, then parsed alone.

An ordinary streaming parser stops at the first bad item and reads numbers into its own kinds; cut out first, a bad item is
one row's error, and every item is read exactly as a line of JSON Lines is. Memory holds one item.
"""

import io
import re
from collections.abc import Iterator

from inference.prompts.detection import BOM
from inference.prompts.formats.jsonl import parsed
from inference.prompts.formats.text_lines import MAX_ROW_BYTES, not_utf8, too_long
from inference.prompts.jsontext import JsonReader
from inference.prompts.rows import FileBroken, RawRow, RefusedRow, quote

_CHUNK = 1 << 18
_STRING = rb'"(?:[^"\\]+|\\[\s\S])*+"'
_TO_COMMA = re.compile(rb'(?:[^"\[\]{},]+|' + _STRING + rb")*+")
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]+|' + _STRING + rb")*+")
_INSIDE = re.compile(rb'(?:[^"\\]+|\\[\s\S])*+')
_OPEN, _CLOSE, _QUOTE, _COMMA = b"[{", b"]}", ord('"'), ord(",")


def read(stream: io.BufferedReader, reader: JsonReader) -> Iterator[RawRow | RefusedRow]:
    """One row an item; its number is its place in the array, from 1.

    Raises:
        FileBroken: no array begins here, or the file ends inside it.
    """
    number = 0
    for number, raw in enumerate(_items(stream), start=1):
        if raw is None:
            yield too_long(number)
        elif not raw.strip():
            yield RefusedRow(
                number, "not_json", "nothing stands between two commas, or between the last comma and the bracket"
            )
        else:
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                yield not_utf8(number, raw, error)
            else:
                yield parsed(number, text, reader)


class _Cutter:
    """Finds where items end. Feed it bytes; `items` holds what is complete (None: an item too long to keep)."""

    def __init__(self) -> None:
        self.items: list[bytes | None] = []
        self.count = 0
        self.depth = 1
        self.after_comma = False
        self.rest = b""
        self._kept = bytearray()
        self._too_long = False
        self._in_string = False

    @property
    def inside_item(self) -> bool:
        """Whether an item was begun and not ended."""
        return self.after_comma or bool(self._kept.strip()) or self._too_long

    def feed(self, data: bytes) -> bytes:
        """Cut `data`; the bytes that could not be decided on yet (half an escape) come back, to be fed again with more."""
        position = start = 0
        while position < len(data) and self.depth:
            if self._in_string:
                match = _INSIDE.match(data, position)
                position = match.end() if match else position
                if position >= len(data) or data[position] != _QUOTE:
                    break  # the string goes on in the next chunk, perhaps from the middle of an escape
                position += 1
                self._in_string = False
                continue
            skipped = (_TO_COMMA if self.depth == 1 else _TO_BRACKET).match(data, position)
            position = skipped.end() if skipped else position
            if position == len(data):
                break
            byte = data[position]
            position += 1
            if byte == _QUOTE:
                self._in_string = True
            elif byte in _OPEN:
                self.depth += 1
            elif byte in _CLOSE:
                self.depth -= 1
            if (byte == _COMMA and self.depth == 1) or not self.depth:
                self._keep(data[start : position - 1])
                self._end(last=not self.depth)
                start = position
        if not self.depth:
            self.rest = data[position:]
            return b""
        self._keep(data[start:position])
        return data[position:]

    def whole_object(self) -> list[bytes]:
        """The last item, where the file ended right after an object that is complete; it counts as ended then."""
        item = bytes(self._kept)
        if self.depth != 1 or self._in_string or not item.rstrip().endswith(b"}"):
            return []
        self._end(last=True)
        self.items.clear()
        return [item]

    def _keep(self, piece: bytes) -> None:
        if self._too_long or len(self._kept) + len(piece) > MAX_ROW_BYTES:
            self._too_long = True
            self._kept.clear()
        else:
            self._kept += piece

    def _end(self, *, last: bool) -> None:
        if not last or self.inside_item:
            self.items.append(None if self._too_long else bytes(self._kept))
            self.count += 1
        self._kept.clear()
        self._too_long = False
        self.after_comma = not last


def _items(stream: io.BufferedReader) -> Iterator[bytes | None]:
    head = stream.read(_CHUNK).removeprefix(BOM).lstrip()
    while not head and (more := stream.read(_CHUNK)):
        head = more.lstrip()
    if not head:
        return
    if not head.startswith(b"["):
        raise FileBroken(1, f"a JSON array begins with `[`, but the file begins with {quote(head[:20])}")
    cutter, data = _Cutter(), head[1:]
    while True:
        undecided = cutter.feed(data)
        yield from cutter.items
        cutter.items.clear()
        if not cutter.depth:
            break
        more = stream.read(_CHUNK)
        if not more:
            yield from cutter.whole_object()
            what = f"inside item {cutter.count + 1}" if cutter.inside_item else f"after item {cutter.count}"
            raise FileBroken(cutter.count + 1, f"the file ends {what}, before the `]` that closes the array")
        data = undecided + more
    trailing = cutter.rest.strip() or stream.read(_CHUNK).strip()
    if trailing:
        raise FileBroken(cutter.count + 1, f"after the array's closing `]` comes {quote(trailing[:20])}")
