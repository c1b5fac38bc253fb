"""Parquet, in small batches, as plain Python values: templates test for lists and dicts, which arrays are not.

Arrow gives every row of a column the keys of all rows, with null where a row had none; templates that ask whether a key is there
would then behave differently, so null keys are dropped here, below the top level.
"""

import io
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from db.errors import TooLarge
from inference.prompts.rows import FileBroken, RawRow, RefusedRow

BATCH_ROWS = 128
BATCH_BYTES = 128 * 2**20
"""What a batch may unpack to: a page of one kilobyte can stand for the same 20 MB in each of a thousand rows."""


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
            for packed in table.iter_batches(batch_size=_rows_at_once(table.metadata), use_threads=False):
                batch = _plain(packed)
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


def _rows_at_once(metadata: pq.FileMetaData) -> int:
    """Few enough that they fit `BATCH_BYTES` should each hold the largest value that its column can have: a chunk whole."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number).total_uncompressed_size for group in groups for number in range(group.num_columns)]
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max([1, *chunks])))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with every value written out, so that its size is what it unpacks to."""
    wanted = pa.schema([field.with_type(_written_out(field.type)) for field in batch.schema])
    return batch if wanted.equals(batch.schema) else batch.cast(wanted)


def _written_out(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return cast("pa.DataType", kind.value_type)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_written_out(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_written_out(field.type)) for field in kind])
    return kind


def without_nulls(value: Any) -> Any:
    """The value without keys that are null; text that was stored as bytes becomes text."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
