"""`parquet`: the same rows as columns, as SkyRL's pre-tokenised reader and Hugging Face `datasets` take them.

Rows are gathered into row groups of a bounded number of ids, so that memory is flat on both sides.
"""

from contextlib import suppress
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from inference.export.files import HashedFile
from inference.export.rows import TrainingRow
from inference.export.shards import ShardWriter

NAME: Final = "parquet"
DESCRIPTION: Final = (
    "Parquet (zstd), one generation a row: input_ids list<int32> (prompt, then answer with its stop id), loss_mask list<int32> (1 over "
    "the answer), id, category, meta (JSON text). Read by Hugging Face datasets, pandas and SkyRL's pre-tokenised reader."
)

GROUP_IDS: Final = 1_000_000
GROUP_ROWS: Final = 2_000

SCHEMA: Final = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int32())),
        ("id", pa.string()),
        ("category", pa.string()),
        ("meta", pa.string()),
    ]
)


class ParquetWriter(ShardWriter):
    """Rows as columns."""

    suffix: ClassVar[str] = ".parquet"
    _writer: Any
    _group: list[TrainingRow]
    _group_ids: int

    def _begin(self, file: HashedFile) -> None:
        self._writer = pq.ParquetWriter(pa.PythonFile(file, mode="w"), SCHEMA, compression="zstd")
        self._group, self._group_ids = [], 0

    def _append(self, file: HashedFile, row: TrainingRow) -> None:  # noqa: ARG002  (Arrow holds the file)
        self._group.append(row)
        self._group_ids += len(row.input_ids)
        if self._group_ids >= GROUP_IDS or len(self._group) >= GROUP_ROWS:
            self._write_group()

    def _end(self) -> None:
        self._write_group()
        self._writer.close()

    def _discard(self) -> None:
        with suppress(OSError, pa.ArrowException):  # it would write its footer into a closed file when it is collected
            self._writer.close()
        self._writer.is_open = False

    def _write_group(self) -> None:
        if not self._group:
            return
        offsets = pa.array(np.cumsum([0, *(len(row.input_ids) for row in self._group)]), pa.int32())
        values = [np.concatenate([getattr(row, name) for row in self._group]) for name in ("input_ids", "loss_mask")]
        columns: list[Any] = [pa.ListArray.from_arrays(offsets, pa.array(column.astype(np.int32))) for column in values]
        columns += [
            pa.array([getattr(row, name) for row in self._group], pa.string()) for name in ("id", "category", "meta")
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
        self._group, self._group_ids = [], 0
