"""CSV with a header: cells are text; those of columns that hold structure are parsed where the shape is read.

A row's number is the line of the file on which it begins, since quoted cells may hold line ends.
"""

import csv
import io
from collections.abc import Iterator
from itertools import chain

from inference.prompts.formats.text_lines import MAX_ROW_BYTES
from inference.prompts.rows import FileBroken, RawRow, RefusedRow, quote

csv.field_size_limit(MAX_ROW_BYTES)  # the module's own 128 KiB is less than one long conversation


class _Lines:
    """Decoded lines for `csv`, with their ends; bytes that are not UTF-8 become lone surrogates, found later in the row."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")

    def __iter__(self) -> Iterator[str]:
        while line := self._text.readline(MAX_ROW_BYTES):
            yield line

    def detach(self) -> None:
        """Leave the byte stream open for its owner."""
        self._text.detach()


def read(stream: io.BufferedReader, delimiter: str | None = None) -> Iterator[RawRow | RefusedRow]:
    """One row a record; `delimiter` None takes the header's: a comma, else a tab or a semicolon.

    Raises:
        FileBroken: the header is no CSV record, or names a column twice.
    """
    lines = _Lines(stream)
    try:
        yield from _rows(iter(lines), delimiter)
    finally:
        lines.detach()


def _rows(lines: Iterator[str], delimiter: str | None) -> Iterator[RawRow | RefusedRow]:
    skipped, first = next(((at, line) for at, line in enumerate(lines) if line.strip()), (0, ""))
    if not first:
        return
    mark = delimiter or next((mark for mark in ",\t;" if mark in first), ",")
    records = csv.reader(chain([first], lines), delimiter=mark, strict=True)
    try:
        header = [name.strip() for name in next(records)]
    except csv.Error as error:
        looks = "; it looks like JSON: name it .jsonl or .json" if first.lstrip()[:1] in {"{", "["} else ""
        raise FileBroken(skipped + 1, f"the header is not a CSV record: {error}{looks}") from error
    if twice := [name for name in header if header.count(name) > 1]:
        raise FileBroken(skipped + 1, f"the header names the column {quote(twice[0])} twice")
    while True:
        line = skipped + records.line_num + 1
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            yield RefusedRow(line, "csv_broken", f"not a CSV record: {error}")
            continue
        if not cells:
            continue
        if len(cells) != len(header):
            message = f"{len(cells)} cells where the header has {len(header)}; a cell with a comma, quote or line end needs quotes"
            yield RefusedRow(line, "csv_cells", message)
        elif not _is_text("".join(cells)):
            yield RefusedRow(line, "not_utf8", "a cell holds bytes that are not UTF-8; save the file as UTF-8")
        else:
            yield RawRow(line, {name: cell or None for name, cell in zip(header, cells, strict=True)})


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
