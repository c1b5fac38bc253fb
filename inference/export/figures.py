"""Counts over the rows of an export: trained tokens a row, how often each id is trained, how answers end."""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from inference.export.rows import TrainingRow

_DENSE = 1 << 22
"""Ids below it are counted in an array (32 MB at most); what lies beyond is rare and counted by name."""

_PENDING = 1 << 20


@dataclass(slots=True)
class Figures:
    """Grows by four bytes a row, and by nothing with the length of rows."""

    rows: int = 0
    clipped: int = 0
    after_stop_cut: int = 0
    endings: Counter[int] = field(default_factory=Counter)
    """{last id of a row: rows}"""
    _trained: "array[int]" = field(default_factory=lambda: array("I"))
    _dense: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _sparse: Counter[int] = field(default_factory=Counter)
    _pending: list[NDArray[np.uint32]] = field(default_factory=list)
    _pending_ids: int = 0

    def add(self, row: TrainingRow) -> None:
        """Count a row."""
        trained = row.input_ids[row.loss_mask.astype(bool)]
        self.rows += 1
        self._trained.append(len(trained))
        self.endings[int(row.input_ids[-1])] += 1
        self._pending.append(trained)
        self._pending_ids += len(trained)
        if self._pending_ids >= _PENDING:
            self._count()

    def _count(self) -> None:
        if not self._pending:
            return
        ids = np.concatenate(self._pending)
        self._pending, self._pending_ids = [], 0
        counts = np.bincount(ids[ids < _DENSE], minlength=len(self._dense))
        counts[: len(self._dense)] += self._dense
        self._dense = counts.astype(np.int64, copy=False)
        self._sparse.update(ids[ids >= _DENSE].tolist())

    def trained_tokens(self) -> dict[str, Any]:
        """{min, median, max, sum} over rows; zeros where there is no row."""
        if not self._trained:
            return {"min": 0, "median": 0, "max": 0, "sum": 0}
        values = np.frombuffer(self._trained, np.uint32)
        return {
            "min": int(values.min()),
            "median": float(np.median(values)),
            "max": int(values.max()),
            "sum": int(values.sum(dtype=np.int64)),
        }

    def token_counts(self) -> bytes:
        """JSON text `{"id": times trained}`, ids ascending: what a draft vocabulary is chosen from."""
        self._count()
        found = {str(number): int(self._dense[number]) for number in np.flatnonzero(self._dense).tolist()}
        found |= {str(number): count for number, count in sorted(self._sparse.items())}
        return orjson.dumps(found)
