"""Numbered lines of a byte stream, each within a bound; and plain text, where each of them is a prompt."""

import io
from collections.abc import Iterator

from inference.prompts.detection import BOM
from inference.prompts.rows import RawRow, RefusedRow, quote

MAX_ROW_BYTES = 16 * 2**20
"""Largest row: a megabyte is already a million tokens or so, and one endless line must not fill the memory."""


def numbered(stream: io.BufferedReader) -> Iterator[tuple[int, str] | RefusedRow]:
    """(1-based line number, text without its line end) of each line that is not blank; CRLF and LF, BOM left out.

    A line that is too long or not UTF-8 comes as a `RefusedRow`; the first is passed over without being held.
    """
    number = 0
    while raw := stream.readline(MAX_ROW_BYTES + 1):
        number += 1
        if len(raw) > MAX_ROW_BYTES and not raw.endswith(b"\n"):
            while (rest := stream.readline(MAX_ROW_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield too_long(number)
            continue
        raw = raw.removeprefix(BOM)  # joined files carry one in the middle
        if not raw.strip():
            continue
        try:
            yield number, raw.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            yield not_utf8(number, raw, error)


def too_long(number: int) -> RefusedRow:
    """The refusal of a row beyond `MAX_ROW_BYTES`."""
    return RefusedRow(number, "row_too_long", f"longer than {MAX_ROW_BYTES // 2**20} MiB, the most one row may hold")


def not_utf8(number: int, raw: bytes, error: UnicodeDecodeError) -> RefusedRow:
    """The refusal of a row whose bytes are not UTF-8."""
    near = quote(raw[max(0, error.start - 10) : error.start + 10].strip())
    return RefusedRow(number, "not_utf8", f"not UTF-8: byte {error.start + 1} is 0x{raw[error.start]:02x}, near {near}")


def read(stream: io.BufferedReader) -> Iterator[RawRow | RefusedRow]:
    """One prompt a line."""
    for item in numbered(stream):
        yield item if isinstance(item, RefusedRow) else RawRow(item[0], {"prompt": item[1]})
