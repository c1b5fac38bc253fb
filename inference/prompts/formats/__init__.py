"""One module per file format: plain bytes in, rows out, one at a time; a bad row is a value, not an exception."""

import io
from collections.abc import Iterator

from inference.prompts import detection
from inference.prompts.formats import csv_table, json_array, jsonl, parquet_table, text_lines
from inference.prompts.jsontext import JsonReader
from inference.prompts.rows import RawRow, RefusedRow


def read_rows(
    file_format: str, stream: io.BufferedReader, json_reader: JsonReader, limit: int
) -> Iterator[RawRow | RefusedRow]:
    """The rows of `stream` in their order; `stream` must be able to seek for Parquet, which is bounded to `limit` unpacked bytes.

    Raises:
        FileBroken: while iterating, where the rest of the file cannot be read.
        TooLarge: while iterating, where it unpacks beyond the limit.
    """
    match file_format:
        case detection.JSONL:
            return jsonl.read(stream, json_reader)
        case detection.JSON_ARRAY:
            return json_array.read(stream, json_reader)
        case detection.CSV:
            return csv_table.read(stream)
        case detection.TSV:
            return csv_table.read(stream, delimiter="\t")
        case detection.PARQUET:
            return parquet_table.read(stream, limit)
        case _:
            return text_lines.read(stream)
