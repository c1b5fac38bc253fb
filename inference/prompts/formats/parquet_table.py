"""Parquet, in small batches, as plain Python values: templates test for lists and dicts, which arrays are not.

Arrow gives every row of a column the keys of all rows, with null where a row had none; templates that ask whether a key is there
would then behave differently, so null keys are dropped here, below the top level.
"""

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from db.errors import TooLarge
from inference.prompts.rows import FileBroken, RawRow, RefusedRow

BATCH_ROWS = 128


def read(stream: io.BufferedReader, limit: int) -> Iterator[RawRow | RefusedRow]:
    """One row a record, numbered from 1.

    Args:
        stream: must be able to seek.
        limit: most bytes of Arrow data to give out.

    Raises:
        FileBroken: the file is no Parquet file, or damaged.
        TooLarge: it unpacks beyond `limit`.
    """
    number = given = 0
    try:
        with pq.ParquetFile(stream) as table:
            for batch in table.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
                given += batch.nbytes
                if given > limit:
                    raise TooLarge(
                        "unpacked_too_large",
                        f"Unpacked, the Parquet file is larger than {limit / 2**20:g} MiB.",
                        field="file",
                    )
                for record in batch.to_pylist():
                    number += 1
                    yield RawRow(number, {key: without_nulls(value) for key, value in record.items()})
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:200].rstrip(".") if str(error) else type(error).__name__
        raise FileBroken(number + 1, f"the Parquet data is damaged, or is none ({reason})") from error


def without_nulls(value: Any) -> Any:
    """The value without keys that are null; text that was stored as bytes becomes text."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
