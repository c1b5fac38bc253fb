"""The first place whose text would be encoded to other ids, on the three real tokenizers; delimiters are no drift."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.drift import Drift, drift_flag, find_drift
from inference.tokens.cache import TokenizerCache
from inference.tokens.tokenizer import Tokenizer
from tests.quality.reading import read
from tests.support.families import Family
from tests.support.tiny_tokenizers import make_tokenizer
from tests.support.tokenizers import NAMES, real_tokenizer


def drift(tokenizer: Tokenizer, ids: list[int]) -> Drift | None:
    return find_drift(tokenizer, np.array(ids, dtype=np.uint32))


@pytest.mark.parametrize(
    ("name", "there", "becomes"),
    [
        ("qwen3", [383, 75, 385], [14990]),
        ("qwen3", [198, 198], [271]),
        ("qwen3", [522, 26865, 29], [151668]),
        ("deepseek_v3", [263, 61547], [33310]),
        ("gptoss", [273, 72807], [24912]),
    ],
)
def test_ids_that_the_tokenizer_would_choose_otherwise_are_found(
    name: str, there: list[int], becomes: list[int]
) -> None:
    tokenizer = real_tokenizer(name)
    assert drift(tokenizer, there) == Drift(0, tuple(there), tuple(becomes))
    before, after = tokenizer.encode("The first line.\n\nThen this:"), tokenizer.encode("\n\nAnd the last.")
    found = drift(tokenizer, [*before, *there, *after])
    if found is not None and found.position == len(before):
        assert found.becomes[: len(becomes)] == tuple(becomes)
    assert found is not None
    assert found.position >= len(before) - 1  # the border may join with what stands before it


def test_what_the_tokenizer_chooses_itself_is_no_drift() -> None:
    assert drift(real_tokenizer("qwen3"), [5212, 8926, 788]) is None


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_what_was_encoded_does_not_drift(name: str, text: str) -> None:
    tokenizer = real_tokenizer(name)
    ids = tokenizer.encode(text)
    assert drift(tokenizer, ids) is None or tokenizer.encode(tokenizer.decode(ids)) != ids


def test_delimiters_among_the_text_are_no_drift() -> None:
    tokenizer = real_tokenizer("qwen3")
    ids = tokenizer.encode("<think>\nLet me see.\n</think>\n\nFour.<tool_call>\n{}\n</tool_call><|im_end|>")
    assert drift(tokenizer, ids) is None
    split = [
        *tokenizer.encode("a"),
        198,
        151668,
        198,
        *tokenizer.encode("b"),
    ]  # two newlines with a delimiter between them
    assert drift(tokenizer, split) is None


def test_the_position_is_that_of_the_output_and_both_sides_say_the_same() -> None:
    tokenizer = real_tokenizer("qwen3")
    before = tokenizer.encode("<think>\nWell.</think>")
    found = drift(tokenizer, [*before, 383, 75, 385, *tokenizer.encode(" there, how are you?"), 198, 198])
    assert found is not None
    assert (found.position, found.there, found.becomes) == (len(before), (383, 75, 385), (14990,))
    flag = drift_flag(tokenizer, found)
    assert (flag.code, flag.severity, flag.start, flag.end) == (
        "retokenization_drift",
        "info",
        len(before),
        len(before) + 3,
    )
    assert "'hello'" in flag.message
    assert "14990" in flag.message


def test_a_normaliser_that_changes_text_drifts() -> None:
    tokenizer = real_tokenizer("qwen3")
    accent = next(n for n in range(151_643) if tokenizer.token_bytes(n) == "\u0301".encode())
    ids = [*tokenizer.encode("caf"), tokenizer.encode("e")[0], accent, *tokenizer.encode(" is open")]
    found = drift(tokenizer, ids)
    assert found is not None
    assert tokenizer.decode(ids) != unicodedata.normalize("NFC", tokenizer.decode(ids))


def test_half_a_character_drifts_and_is_no_error() -> None:
    tokenizer = real_tokenizer("qwen3")
    half = tokenizer.encode("𝒳")[:1]
    found = drift(tokenizer, [*tokenizer.encode("Hello"), *half])
    assert found is not None
    assert found.position == len(tokenizer.encode("Hello"))
    assert found.there == tuple(half)


@pytest.mark.parametrize("style", ["byte_level", "byte_fallback", "sentencepiece"])
@pytest.mark.parametrize("text", ["The quick brown fox", " The answer is four.", "Two and three", "x"])
def test_a_space_that_the_tokenizer_puts_first_is_no_drift(tmp_path, style, text: str) -> None:
    make_tokenizer(tmp_path / "m", style=style)
    tokenizer = TokenizerCache([tmp_path], allow_remote_code=False).get("m")
    assert drift(tokenizer, tokenizer.encode(text)) is None


def test_the_pass_looks_for_drift_only_where_it_is_asked_to(qwen3: Family) -> None:
    letters = [*"The", *" fox"]
    ids = np.array([number for letter in letters for number in qwen3.ids(letter)], dtype=np.uint32)
    from inference.quality.inspection import inspect_text

    segmentation = qwen3.bound.segment(None, ids)
    assert inspect_text(qwen3.bound, qwen3.tokenizer, "", ids, segmentation) == ()
    (found,) = inspect_text(qwen3.bound, qwen3.tokenizer, "", ids, segmentation, off=frozenset())
    assert (found.code, found.start) == ("retokenization_drift", 0)
    assert read(qwen3, "Hi there.", off=frozenset()) == ()


@settings(max_examples=300, deadline=None)
@given(
    ids=st.lists(
        st.sampled_from(
            [198, 220, 5, 64, 65, 151643, 151645, 151667, 151668, 253, 172, 2**32 - 1, 999_999, 26865, 29, 522]
        )
        | st.integers(0, 151_935),
        max_size=60,
    )
)
def test_any_ids_are_answered_within_themselves(ids: list[int]) -> None:
    tokenizer = real_tokenizer("qwen3")
    found = drift(tokenizer, ids)
    if found is not None:
        assert 0 <= found.position < len(ids)
        assert found.there == tuple(ids[found.position : found.position + len(found.there)])
        assert found.there != found.becomes
        assert drift_flag(tokenizer, found).message.endswith(".")
