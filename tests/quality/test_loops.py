"""Exact loops are flagged; rules, empty tables, zeros and refrains that end are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.repetition import Loop, find_loop
from tests.support.families import CLOSED, OPENED, SILENT, Family

END = "<|im_end|>"
CHORUS = " And we will all go home, go home, and we will all go home before the day."
PARAGRAPH = (
    " The user wants the time in Oslo, so I call the tool and wait for the answer. The tool does not answer, and so I think again about "
    "what the user wants, which is the time in Oslo."
)


def loops(family: Family, output: str, think: str = CLOSED, finish: str = "stop") -> list[str]:
    return [code for code in family.codes(output, think, finish) if code == "repetition_loop"]


@pytest.mark.parametrize(
    ("output", "think", "finish"),
    [
        ("a" + " again" * 5_000, CLOSED, "length"),
        (PARAGRAPH * 60, CLOSED, "length"),
        (PARAGRAPH * 60 + END, CLOSED, "stop"),
        (PARAGRAPH * 4, CLOSED, "length"),
        (f"<think>{PARAGRAPH * 20}</think>Four.{END}", SILENT, "stop"),
        (PARAGRAPH * 20, OPENED, "length"),
        ("\\boxed{4}\n\n" * 400, CLOSED, "length"),
        ("0" * 9_000, CLOSED, "length"),
        ("| | | |\n" * 2_000, CLOSED, "length"),
        ("\n" * 3_000, CLOSED, "length"),
        (CHORUS * 4, CLOSED, "length"),  # cut off in its middle: nobody knows when it would have ended
        (CHORUS * 30 + END, CLOSED, "stop"),
        ("よし、もう一度確認しよう。" * 60, CLOSED, "length"),
        ("🦀" * 900, CLOSED, "length"),
    ],
)
def test_a_loop_is_flagged(qwen3: Family, output: str, think: str, finish: str) -> None:
    assert loops(qwen3, output, think, finish) == ["repetition_loop"]


@pytest.mark.parametrize(
    "content",
    [
        f"Here is the song.\n{CHORUS * 4}",
        "Here is a plan.\n| | | |\n|---|---|---|\n" + "| | | |\n" * 25,
        "The matrix is\n" + "0 0 0 0 0 0 0 0\n" * 12,
        "Some text.\n\n" + "-" * 200,
        "Some text.\n\n" + "=" * 200 + "\n",
        "Done." + "\n" * 100,
        "[" + "0, " * 90,
    ],
)
def test_what_people_would_not_call_a_loop_is_none(qwen3: Family, content: str) -> None:
    assert loops(qwen3, f"{content}{END}") == []
    assert loops(qwen3, f"<think>{content}</think>Four.{END}", SILENT) == []


@pytest.mark.parametrize("period", [1, 2, 3, 40, 128, 997, 5_000, 7_001])
def test_any_period_is_found_with_start_and_share(qwen3: Family, period: int) -> None:
    unit = np.random.default_rng(period).integers(300, 500, period).tolist()
    before = qwen3.ids("The quick brown fox ")
    copies = max(4, 3_000 // period)
    ids = [*before, *unit * copies]
    (found,) = [flag for flag in qwen3.inspect(ids, CLOSED, "length").flags if flag.code == "repetition_loop"]
    assert found.end == len(ids)
    assert found.start in range(len(before) - 2, len(before) + 1)  # the unit's end may happen to stand before it
    assert ("one token" if period == 1 else f"{period} tokens") in found.message
    share = round(100 * (len(ids) - (found.start or 0)) / len(ids))
    assert f"{share} % of the answer" in found.message


def test_many_false_starts_do_not_hide_the_period() -> None:
    """The last ids stand at many places that are no period's end; each is ruled out by one comparison."""
    tail = list(range(32))
    unit = [number for n in range(100) for number in (*tail, 1_000 + n)] + tail
    ids = np.array(unit * 3, dtype=np.uint32)
    assert find_loop(ids) == Loop(len(unit), 0, 3 * len(unit))


def test_bytes_that_match_between_two_ids_are_no_copy() -> None:
    ids = np.full(300, 0x01010101, dtype=np.uint32)
    ids[:3] = 7
    assert find_loop(ids) == Loop(1, 3, 300)
    shifted = np.frombuffer(np.tile(np.array([1, 2, 3, 4, 5], dtype=np.uint8), 400).tobytes(), dtype="<u4")
    assert find_loop(shifted) == Loop(5, 0, 500)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=300), st.integers(1, 40), st.integers(3, 90))
def test_a_loop_ends_where_the_ids_end(before: list[int], period: int, copies: int) -> None:
    ids = np.array(before + list(range(period)) * copies, dtype=np.uint32)
    found = find_loop(ids)
    assert (found is not None) >= (period * copies >= 48)
    if found is not None:
        assert found.end == len(ids)
        assert np.array_equal(ids[found.start + found.period :], ids[found.start : -found.period])
