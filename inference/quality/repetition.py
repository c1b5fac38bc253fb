"""Exact loops: the text's end repeats with one period. Works on ids alone, without a Python step per token.

A loop is at least three copies over at least 48 tokens (what serving people found to separate loops from refrains, see
vllm-mlx's period checks). The shortest period is reported.
"""

from typing import NamedTuple

import numpy as np

from inference.tokens.ids import Ids

LEAST_COPIES = 3
LEAST_TOKENS = 48
_PROBE = 32  # any loop that counts matches its own last 32 ids one period earlier, since two thirds of 48 are 32
_TRIES = 64


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
    """The loop at the end of `ids`, None where there is none."""
    n = len(ids)
    if n < LEAST_TOKENS:
        return None
    last = n - 1
    ends = np.flatnonzero(ids[_PROBE - 1 : last] == ids[last]) + (_PROBE - 1)
    for back in range(1, _PROBE):
        if not ends.size:
            return None
        ends = ends[ids[ends - back] == ids[last - back]]
    periods = (last - ends)[::-1]
    for period in periods[periods * LEAST_COPIES <= n][:_TRIES].tolist():
        start = _start(ids, period)
        if n - start >= max(LEAST_TOKENS, LEAST_COPIES * period):
            return Loop(period, start, n)
    return None


def _start(ids: Ids, period: int) -> int:
    """Where the stretch with this period begins that reaches to the end of `ids`."""
    differs = np.flatnonzero(ids[period:] != ids[:-period])
    return int(differs[-1]) + 1 if differs.size else 0
