"""JSON Lines: one value a line, blank lines passed over."""

import io
from collections.abc import Iterator

from inference.prompts.formats.text_lines import numbered
from inference.prompts.jsontext import JsonReader
from inference.prompts.rows import FileBroken, Notice, RawRow, RefusedRow, RowRefused, quote


def read(stream: io.BufferedReader, reader: JsonReader) -> Iterator[RawRow | RefusedRow]:
    """One row a line.

    Raises:
        FileBroken: the file is one JSON array over its lines, of which a line-wise reading would take only scraps.
    """
    lines = numbered(stream)
    first, second = next(lines, None), next(lines, None)
    if (
        isinstance(first, tuple)
        and first[1].lstrip().startswith("[")
        and (second is None or not _is_json(first[1], reader))
    ):
        raise FileBroken(
            first[0],
            f"line {first[0]} begins a JSON array, but the file is read as JSON Lines (one object a line): "
            "name it .json, or send it with Content-Type: application/json",
        )
    for item in (first, second):
        if item is not None:
            yield _row(item, reader)
    for item in lines:
        yield _row(item, reader)


def _row(item: tuple[int, str] | RefusedRow, reader: JsonReader) -> RawRow | RefusedRow:
    return item if isinstance(item, RefusedRow) else parsed(item[0], item[1], reader)


def parsed(number: int, text: str, reader: JsonReader) -> RawRow | RefusedRow:
    """One JSON text as a row; equal keys in one object become a notice."""
    try:
        value = reader.parse(text.strip())
    except RowRefused as refusal:
        return RefusedRow(number, refusal.code, refusal.message)
    notices = [
        Notice("duplicate_key", f"the key {quote(key)} stands twice in one object; the last value was taken")
        for key in dict.fromkeys(reader.duplicates)
    ]
    return RawRow(number, value, tuple(notices[:5]))


def _is_json(text: str, reader: JsonReader) -> bool:
    try:
        reader.parse(text)
    except RowRefused:
        return False
    return True
