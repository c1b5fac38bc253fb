"""The id store: the exact ids of every attempt, behind one small interface.

A sample's ids are written durably *before* the row that points to them, under (run, sample, attempt); writing the same key
again replaces it, so an attempt that died between the two is simply done again. Lists never read it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class AttemptIds:
    """One attempt's ids: `prompt_ids` uint32[p] as sent, `output_ids` uint32[n] as received, the stop id included."""

    prompt_ids: Ids
    output_ids: Ids


Key = tuple[int, int]
"""(sample id, attempt number)"""


class IdStore(Protocol):
    """Where ids lie. Safe to call from several threads."""

    def put(self, run_id: int, items: Sequence[tuple[Key, AttemptIds]]) -> None:
        """Store all, durably, before returning."""

    def get(self, run_id: int, key: Key) -> AttemptIds | None:
        """One attempt's ids, or None where none were stored."""

    def get_many(self, run_id: int, keys: Iterable[Key]) -> Iterator[tuple[Key, AttemptIds]]:
        """Those that exist, in the order asked."""

    def drop(self, run_id: int) -> None:
        """Forget a run's ids."""

    def close(self) -> None:
        """Release files and connections."""
