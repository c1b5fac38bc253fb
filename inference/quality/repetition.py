"""Exact loops: the ids' end repeats with one period. Works on ids alone, without a Python step per token.

A loop is at least three copies over at least 48 tokens (what serving people found to separate loops from refrains, see
vllm-mlx's period checks). The shortest period is reported.
"""

from typing import NamedTuple

import numpy as np

from inference.tokens.ids import Ids

LEAST_COPIES = 3
LEAST_TOKENS = 48
_PROBE = 32  # any loop that counts holds its own last 32 ids one period earlier, since two thirds of 48 are 32
_TRIES = 256  # places that look like a period's end; each costs one comparison
_WIDTH = 4  # bytes of an id


class Loop(NamedTuple):
    """Ids [start, end) repeat every `period` tokens."""

    period: int
    start: int
    end: int

    @property
    def copies(self) -> float:
        """How often the period fits."""
        return (self.end - self.start) / self.period


def find_loop(ids: Ids) -> Loop | None:
    """The loop at the end of `ids`, None where there is none.

    Looks for the last ids' earlier occurrences in their bytes: a search from the end that an answer without a loop leaves at once.
    """
    n = len(ids)
    if n < LEAST_TOKENS:
        return None
    data = ids.tobytes()
    size = len(data)
    probe = data[-_PROBE * _WIDTH :]
    end = size
    for _ in range(_TRIES):
        at = data.rfind(probe, 0, end - 1)
        if at < 0:
            return None
        end = at + len(probe)
        if end % _WIDTH == 0:
            period = (size - end) // _WIDTH
            needed = max(LEAST_TOKENS, LEAST_COPIES * period)
            if needed > n:
                return None
            first = size - needed * _WIDTH
            if data[first : size - period * _WIDTH] == data[first + period * _WIDTH :]:
                return Loop(period, _start(ids, period), n)
    return None


def _start(ids: Ids, period: int) -> int:
    """Where the stretch with this period begins that reaches to the end of `ids`."""
    differs = np.flatnonzero(ids[period:] != ids[:-period])
    return int(differs[-1]) + 1 if differs.size else 0
