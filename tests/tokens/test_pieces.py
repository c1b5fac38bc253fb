"""Every token visible, no character ever in halves, every byte accounted for."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.tokens.cache import TokenizerCache
from inference.tokens.pieces import Piece, pieces
from inference.tokens.tokenizer import Tokenizer
from tests.support import tiny_tokenizers as tiny
from tests.support.families import Family
from tests.support.tokenizers import NAMES, real_tokenizer


def check(tokenizer: Tokenizer, ids: list[int], found: list[Piece]) -> None:
    assert [piece.id for piece in found] == ids
    assert [piece.index for piece in found] == list(range(len(ids)))
    assert b"".join(bytes.fromhex(piece.bytes) for piece in found) == tokenizer.bytes_of(ids)
    text = tokenizer.decode(ids)
    assert "".join(piece.text for piece in found) == text
    for piece in found:
        assert text[piece.start : piece.end] == piece.text
        if piece.group:
            place, size = piece.group
            assert 0 <= place < size > 1
            if place:
                assert piece.text == ""
                assert found[piece.index - 1].group == (place - 1, size)
    valid = tokenizer.bytes_of(ids).decode("utf-8", "ignore").encode() == tokenizer.bytes_of(ids)
    assert not valid or text.encode() == tokenizer.bytes_of(ids)  # U+FFFD only for bytes that are no character


@pytest.mark.parametrize(
    ("name", "ids", "groups"),
    [
        ("deepseek_v3", [80300, 227], ["🙂"]),
        ("deepseek_v3", [3574, 102, 250], ["🦙"]),
        ("gptoss", [4103, 99, 247], ["🦙"]),
        ("qwen3", [145233, 378, 235, 145851], ["👩", "\u200d", "💻"]),
        ("qwen3", [123893, 111], ["𝒳"]),
    ],
)
def test_ids_of_one_character_are_one_group(name: str, ids: list[int], groups: list[str]) -> None:
    tokenizer = real_tokenizer(name)
    found = pieces(tokenizer, ids)
    check(tokenizer, ids, found)
    assert [piece.text for piece in found if piece.text] == groups


def test_a_character_cut_by_a_delimiter_is_invalid_on_both_sides(qwen3: Family) -> None:
    crab = qwen3.ids("🦀")
    think = qwen3.tokenizer.id_of("<think>")
    assert think is not None
    ids = [*crab[:2], think, *crab[2:]]
    found = pieces(qwen3.tokenizer, ids)
    check(qwen3.tokenizer, ids, found)
    assert [piece.text for piece in found] == ["\ufffd", "", "<think>", "\ufffd", "\ufffd"]
    assert found[0].group == (0, 2)
    assert found[2].kind == "added"


def test_what_follows_a_broken_character_is_not_drawn_into_its_group(qwen3: Family) -> None:
    lead = qwen3.ids("🦀")[0]
    (letter,) = qwen3.ids("a")
    found = pieces(qwen3.tokenizer, [lead, letter])
    assert [(piece.text, piece.group) for piece in found] == [("\ufffd", None), ("a", None)]


def test_kinds_tell_special_added_byte_text_and_unknown_apart(qwen3: Family) -> None:
    ids = [*qwen3.ids("<|im_start|><think>a"), qwen3.ids("🦀")[0], 140_000, 4_000_000_000]
    assert [piece.kind for piece in pieces(qwen3.tokenizer, ids)] == [
        "special",
        "added",
        "text",
        "byte",
        "unknown",
        "unknown",
    ]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_pieces_of_any_ids_add_up_on_real_tokenizers(name: str, data: st.DataObject) -> None:
    tokenizer = real_tokenizer(name)
    part = st.one_of(st.integers(0, 300), st.integers(0, tokenizer.vocabulary.size + 10))
    ids = data.draw(st.lists(part, max_size=30))
    check(tokenizer, ids, pieces(tokenizer, ids))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    root = tmp_path_factory.mktemp("styles")
    cache = TokenizerCache([root], allow_remote_code=False)
    styles: tuple[tiny.Style, ...] = ("byte_level", "byte_fallback", "sentencepiece")
    found = {style: cache.get(str(tiny.make_tokenizer(Path(root) / style, style=style))) for style in styles}
    found["kimi"] = cache.get(str(tiny.make_tokenizer(root / "kimi", added=tiny.KIMI_K2)))
    found["deepseek"] = cache.get(str(tiny.make_tokenizer(root / "deepseek", added=tiny.DEEPSEEK_R1, eos=None)))
    return found


@pytest.mark.parametrize("name", ["byte_level", "byte_fallback", "sentencepiece", "kimi", "deepseek"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_pieces_of_any_ids_add_up_in_every_style(
    tokenizers: dict[str, Tokenizer], name: str, data: st.DataObject
) -> None:
    tokenizer = tokenizers[name]
    part = st.one_of(st.integers(0, 600), st.sampled_from(sorted(tokenizer.vocabulary.added)), st.just(2**32 - 1))
    ids = data.draw(st.lists(part, max_size=30))
    check(tokenizer, ids, pieces(tokenizer, ids))
