"""Token ids as this house holds them: `uint32[n]`, checked once where they enter."""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from inference.tokens.errors import TokensError

Ids: TypeAlias = NDArray[np.uint32]
LARGEST = 2**32 - 1


def as_ids(ids: Sequence[int] | NDArray[np.integer[Any]], field: str | None = None) -> Ids:
    """The ids as a flat `uint32[n]`; no copy where they already are one.

    Raises `TokensError("bad_ids")` for anything that is not a flat list of whole numbers in 0…2³²-1.
    """
    if isinstance(ids, np.ndarray) and ids.dtype == np.uint32 and ids.ndim == 1:
        return cast("Ids", ids)
    try:
        array = np.asarray(ids)
    except (ValueError, OverflowError):
        array = np.empty((0, 0))
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.uint32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TokensError("bad_ids", "Token ids must be a flat list of whole numbers.", field)
    outside = np.flatnonzero((array < 0) | (array > LARGEST))
    if outside.size:
        at = int(outside[0])
        raise TokensError("bad_ids", f"Token id {array[at]} at position {at} is outside 0…{LARGEST}.", field)
    return array.astype(np.uint32)
