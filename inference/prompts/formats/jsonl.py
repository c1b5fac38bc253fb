"""JSON Lines: one value a line, blank lines passed over."""

import io
from collections.abc import Iterator

from inference.prompts.formats.text_lines import numbered
from inference.prompts.jsontext import JsonReader
from inference.prompts.rows import FileBroken, Notice, RawRow, RefusedRow, RowRefused, quote


def read(stream: io.BufferedReader, reader: JsonReader) -> Iterator[RawRow | RefusedRow]:
    """One row a line.

    Raises:
        FileBroken: the file is one JSON array, or objects laid out over several lines: read by the line it would give scraps.
    """
    lines = numbered(stream)
    first, second = next(lines, None), next(lines, None)
    if isinstance(first, tuple):
        _check_layout(*first, second[1] if isinstance(second, tuple) else None, reader)
    for item in (first, second):
        if item is not None:
            yield _row(item, reader)
    for item in lines:
        yield _row(item, reader)


def _check_layout(number: int, first: str, second: str | None, reader: JsonReader) -> None:
    """Refuse the two layouts that begin with a bracket on its own and go on over many lines."""
    if first.lstrip().startswith("[") and (second is None or _breaks_off(first, reader)):
        raise FileBroken(
            number,
            f"line {number} begins a JSON array, but the file is read as JSON Lines (one object a line): "
            "name it .json, or send it with Content-Type: application/json",
        )
    if first.strip() == "{" and second is not None and _breaks_off(second, reader):
        raise FileBroken(
            number,
            f"line {number} begins an object that goes on over several lines, but each line must hold a whole one: "
            "write every object on one line (`jq -c .` does), or put them into a JSON array",
        )


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


def _breaks_off(text: str, reader: JsonReader) -> bool:
    """Whether the line is no JSON by itself; one that is merely nested too deep to be read stays one row's fault."""
    try:
        reader.parse(text)
    except RowRefused as refusal:
        return refusal.code != "nested_too_deep"
    return False
