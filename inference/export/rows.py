"""One training row: exact ids and the mask of what is trained, both from the id store and nothing else.

Spans come from the ids alone: the prompt's are context, the answer's are trained, its final stop id included, since that is
what the server was given and what it gave. No text is looked for, no token replaced.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from db.errors import Invalid
from db.idstore import AttemptIds

MAX_ID: Final = 2**31 - 1
"""Largest id of a row: readers hold ids as signed 32-bit integers"""


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """`input_ids` uint32[n]; `loss_mask` uint8[n], 1 where a token is trained; `meta` is JSON text."""

    id: str
    category: str
    input_ids: NDArray[np.uint32]
    loss_mask: NDArray[np.uint8]
    meta: str


def masked(ids: AttemptIds, answer_tokens: int, max_length: int | None) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Prompt ids and the first `answer_tokens` output ids as (input_ids, loss_mask), cut at `max_length` where given."""
    answer = ids.output_ids[:answer_tokens]
    input_ids = np.concatenate((ids.prompt_ids, answer)).astype(np.uint32, copy=False)
    loss_mask = np.zeros(len(input_ids), np.uint8)
    loss_mask[len(ids.prompt_ids) :] = 1
    return input_ids[:max_length], loss_mask[:max_length]


def check(row: TrainingRow) -> None:
    """Hold a row to what every trainer needs; each writer does it again for each row.

    Raises:
        Invalid: lengths that differ, a mask with nothing or everything trained, an id beyond 31 bits. The mistake is ours, or
            in the store: nothing is written around it.
    """
    if len(row.input_ids) != len(row.loss_mask):
        problem = f"{len(row.input_ids)} ids but {len(row.loss_mask)} mask values"
    elif not set(np.unique(row.loss_mask).tolist()) <= {0, 1}:
        problem = "a mask with values other than 0 and 1"
    elif not row.loss_mask.any():
        problem = "a mask of zeros alone: nothing would be trained"
    elif row.loss_mask.all():
        problem = "a mask of ones alone: the prompt would be trained too"
    elif int(row.input_ids.max()) > MAX_ID:
        problem = f"the id {int(row.input_ids.max())}, more than {MAX_ID}"
    else:
        return
    raise Invalid("export_row_invalid", f"Row {row.id} has {problem}; the export was stopped.")
