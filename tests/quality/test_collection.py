"""What compares answers: a hash that is the same for the same answer alone, and limits that a few extremes do not move."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.collection import LEAST_HASHED, answer_hash, duplicate_flag, length_flag, length_limits
from tests.support.families import CLOSED, SILENT, Family

END = "<|im_end|>"
LONG = "The quick brown fox jumps over the lazy dog, and the dog waits for it in the sun."
STORED = 4288556936178737608
CALL = '<tool_call>{"name": "get_time", "arguments": {"city": "Oslo", "tz": "UTC"}}</tool_call>'


def hashed(family: Family, output: str, think: str = SILENT) -> int | None:
    ids = np.array(family.ids(output), dtype=np.uint32)
    return answer_hash(ids, family.bound.segment(family.prompt_ids(think), ids), family.tokenizer)


def test_the_same_answer_has_the_same_hash_whatever_was_thought(qwen3: Family) -> None:
    first = hashed(qwen3, f"<think>a</think>{LONG}{END}")
    assert first is not None
    assert -(2**63) <= first < 2**63
    assert hashed(qwen3, f"<think>something else</think>{LONG}{END}") == first
    assert hashed(qwen3, f"{LONG}{END}", CLOSED) == first
    assert hashed(qwen3, f"{LONG}{END}\nmore", CLOSED) == first  # what follows the stop is no part of it
    assert hashed(qwen3, LONG, CLOSED) == first


@pytest.mark.parametrize("other", [f"{LONG} ", LONG.replace("dog", "fox", 1), f"{LONG}{CALL}", f"{CALL}{LONG}", CALL])
def test_another_answer_has_another_hash(qwen3: Family, other: str) -> None:
    assert hashed(qwen3, f"{LONG}{END}", CLOSED) != hashed(qwen3, f"{other}{END}", CLOSED) is not None


def test_a_call_is_not_its_text(qwen3: Family) -> None:
    inside = CALL.removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert hashed(qwen3, f"{CALL}{END}", CLOSED) != hashed(qwen3, f"{inside}{END}", CLOSED)


@pytest.mark.parametrize(
    "output",
    [
        "",
        END,
        "Yes.<|im_end|>",
        "<think>long thoughts about nothing that go on and on and on and on</think>42<|im_end|>",
        "\n" * 60,
    ],
)
def test_short_and_blank_answers_have_none(qwen3: Family, output: str) -> None:
    assert hashed(qwen3, output) is None


def test_sixteen_tokens_are_enough(qwen3: Family) -> None:
    ids = qwen3.ids(LONG)
    assert len(ids) > LEAST_HASHED
    for count, wanted in ((LEAST_HASHED - 1, False), (LEAST_HASHED, True)):
        part = np.array(ids[:count], dtype=np.uint32)
        found = answer_hash(part, qwen3.bound.segment(qwen3.prompt_ids(CLOSED), part), qwen3.tokenizer)
        assert (found is not None) is wanted


def test_the_hash_of_given_ids_never_changes(qwen3: Family) -> None:
    """It is stored: a run that is looked at again must find the same."""
    ids = np.arange(300, 340, dtype=np.uint32)
    segmentation = qwen3.bound.segment(None, ids)
    assert [part.kind for part in segmentation.segments] == ["content"]
    assert answer_hash(ids, segmentation, qwen3.tokenizer) == STORED
    assert answer_hash(ids.astype(">u4").astype(np.uint32), segmentation, qwen3.tokenizer) == STORED


def spread(count: int, middle: float, sigma: float, seed: int = 1) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(np.log(middle), sigma, count)).astype(np.int64) + 1


@pytest.mark.parametrize("seed", range(10))
def test_natural_lengths_are_nearly_all_inside(seed: int) -> None:
    lengths = spread(20_000, 800, 0.8, seed)
    limits = length_limits(lengths)
    assert limits is not None
    low, high = limits
    assert np.mean((lengths < low) | (lengths > high)) < 0.002


def test_a_few_extremes_are_found_and_do_not_move_the_limits() -> None:
    lengths = spread(500, 800, 0.3)
    before = length_limits(lengths)
    after = length_limits(np.concatenate([lengths, [32_768] * 20, [2] * 20]))
    assert before is not None
    assert after is not None
    assert after[0] == pytest.approx(before[0], rel=0.25)
    assert after[1] == pytest.approx(before[1], rel=0.25)
    assert after[0] > 2
    assert after[1] < 32_768


def test_answers_that_are_all_alike_leave_a_factor_of_three() -> None:
    assert length_limits([100] * 50) == (33, 300) or length_limits([100] * 50) == (33, 301)
    assert length_limits([100] * 29) is None
    assert length_limits([0] * 100) is None
    assert length_limits([]) is None
    assert length_limits([0] * 500 + [100] * 50) == length_limits([100] * 50)


def test_half_the_answers_short_and_half_long_are_no_outliers() -> None:
    lengths = np.concatenate([spread(300, 40, 0.3), spread(300, 2_000, 0.3)])
    limits = length_limits(lengths)
    assert limits is not None
    assert np.all((lengths >= limits[0]) & (lengths <= limits[1]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=200))
def test_limits_lie_around_the_median(lengths: list[int]) -> None:
    limits = length_limits(lengths)
    real = [length for length in lengths if length]
    assert (limits is None) == (len(real) < 30)
    if limits is not None:
        assert limits[0] <= np.median(real) <= limits[1]


def test_the_sentences_name_what_they_compare_with() -> None:
    long, short = length_flag(9_000, (100, 3_000), "maths"), length_flag(20, (100, 3_000))
    assert long is not None
    assert short is not None
    assert (long.code, long.severity, long.start, long.end) == ("length_outlier", "info", 0, 9_000)
    assert "longer" in long.message
    assert "“maths”" in long.message
    assert "100 to 3,000" in long.message
    assert "shorter" in short.message
    assert [length_flag(n, (100, 3_000)) for n in (100, 3_000, 0)] == [None, None, None]
    same = duplicate_flag(40, 3, 17)
    assert (same.code, same.severity, same.start, same.end) == ("duplicate_answer", "info", 0, 40)
    assert "3 other prompts, such as sample 17" in same.message
    assert "another prompt." in duplicate_flag(40, 1).message
