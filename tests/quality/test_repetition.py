"""Exact loops are found with their period and start; refrains are not loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.repetition import LEAST_COPIES, LEAST_TOKENS, find_loop

PROSE = np.random.default_rng(7).integers(0, 50_000, 3_000).tolist()


def loop(ids: list[int]) -> tuple[int, int, int] | None:
    found = find_loop(np.array(ids, dtype=np.uint32))
    return None if found is None else tuple(found)


@pytest.mark.parametrize("before", [0, 1, 700])
@pytest.mark.parametrize(("period", "copies"), [(1, 5_000), (3, 400), (40, 60), (1, 48), (16, 3), (128, 3), (900, 4)])
def test_a_loop_is_found_with_period_and_start(before: int, period: int, copies: int) -> None:
    unit = [100_000 + number for number in range(period)]
    assert loop(PROSE[:before] + unit * copies) == (period, before, before + period * copies)


def test_the_last_copy_may_be_cut() -> None:
    unit = list(range(20))
    assert loop(PROSE[:50] + unit * 5 + unit[:7]) == (20, 50, 157)


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [5] * 47,
        PROSE,
        PROSE[:500] + [5] * 47,
        PROSE[:500] + list(range(30)) * 2,  # two copies are a repetition, not a loop
        PROSE[:500] + [1, 2, 3] * 15,
        [5] * 500 + PROSE[:1],  # it got out of it
        PROSE[:40] + PROSE[:40] + PROSE[40:80],
    ],
)
def test_what_is_not_a_loop(ids: list[int]) -> None:
    assert loop(ids) is None


def test_many_short_runs_do_not_hide_the_long_period() -> None:
    unit = [5] * 40 + [6]
    assert loop(unit * 10) == (41, 0, 410)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 2), max_size=40),
    st.lists(st.integers(0, 2), min_size=1, max_size=30),
    st.integers(1, 40),
)
def test_the_answer_is_the_shortest_period_of_the_end(before: list[int], unit: list[int], copies: int) -> None:
    ids = before + unit * copies
    n = len(ids)

    def stretch(period: int) -> int:
        start = n - period
        while start > 0 and ids[start - 1] == ids[start - 1 + period]:
            start -= 1
        return start

    wanted = None
    for period in range(1, n // LEAST_COPIES + 1):
        start = stretch(period)
        if n - start >= max(LEAST_TOKENS, LEAST_COPIES * period):
            wanted = (period, start, n)
            break
    assert loop(ids) == wanted
