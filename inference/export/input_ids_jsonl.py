"""`input_ids_jsonl`: the pre-tokenised rows that SpecForge (`data.prompts_path`) and speculators (`--data`) read as they are.

Both take `input_ids` and `loss_mask`, flat lists of one length; further keys are ignored by the one and dropped by the other,
whose reader wants the same keys in every row: hence fixed ones, and all the rest in the one text `meta`.
"""

from typing import ClassVar, Final

import orjson

from inference.export.files import HashedFile
from inference.export.rows import TrainingRow
from inference.export.shards import ShardWriter

NAME: Final = "input_ids_jsonl"
DESCRIPTION: Final = (
    "JSON Lines, one generation a row: input_ids (prompt, then answer with its stop id), loss_mask (1 over the answer), id, category, "
    "meta (JSON text). Read as it is by SpecForge (data.prompts_path) and speculators (prepare_data.py --data FOLDER/data)."
)


class JsonlWriter(ShardWriter):
    """Rows as lines."""

    suffix: ClassVar[str] = ".jsonl"

    def _append(self, file: HashedFile, row: TrainingRow) -> None:
        record = {
            "input_ids": row.input_ids,
            "loss_mask": row.loss_mask,
            "id": row.id,
            "category": row.category,
            "meta": row.meta,
        }
        file.write(orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))
