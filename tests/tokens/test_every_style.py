"""Every family on every kind of vocabulary: what holds where bytes are spelled holds where they fall back, or are words."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.inspection import inspect, inspect_text
from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import all_formats, bind, get_format
from inference.tokens.loading import load_folder
from inference.tokens.pieces import Piece, pieces
from inference.tokens.sglang.reading import engine_readings
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.toolcalls import read_calls
from tests.support import tiny_tokenizers as tiny
from tests.support.families import CLOSED, OPENED, SILENT, Family, make_families, make_vocabulary

STYLES: tuple[tiny.Style, ...] = ("byte_fallback", "sentencepiece")
NAMES = [item.name for item in all_formats() if item.turn_starts]
SPLIT = "🦙é👩\u200d💻𝒳\u3000字"  # characters that no vocabulary here has whole


@pytest.fixture(scope="module")
def styled(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Family]:
    root = tmp_path_factory.mktemp("styled")
    cache = TokenizerCache([root], allow_remote_code=False)
    found = {(name, "byte_level"): family for name, family in make_families(root / "level").items()}
    for name in NAMES:
        for style in STYLES:
            declared = get_format(name)
            folder = make_vocabulary(root / f"{name}-{style}", declared, style)
            (folder / "config.json").unlink()  # a model type may bring a tokenizer class with a style of its own
            tokenizer = cache.get(str(folder))
            prompt = f"{declared.turn_starts[-1]}hi{declared.turn_starts[0]}"
            found[name, style] = Family(bind(declared, tokenizer), tokenizer, prompt)
    return found


def draw_ids(data: st.DataObject, family: Family) -> list[int]:
    """Markers, halves of characters, words and ids that no token has."""
    halves = sorted(set(family.ids(SPLIT)))
    words = sorted(set(family.ids('The answer: functions.f:0 {"name": "f", "arguments": {}}')))
    marks = sorted({*family.bound.ids.values(), *family.bound.stop_ids, *family.tokenizer.vocabulary.added})
    one = st.one_of(
        st.sampled_from(halves),
        st.sampled_from(words),
        st.sampled_from(marks),
        st.sampled_from([0, 2**32 - 1, family.tokenizer.vocab_size, family.tokenizer.vocabulary.size + 1]),
    )
    return data.draw(st.lists(one, max_size=40))


def check_pieces(tokenizer: Tokenizer, ids: list[int], found: list[Piece]) -> None:
    data, text = tokenizer.bytes_of(ids), tokenizer.decode(ids)
    assert [piece.id for piece in found] == ids
    assert b"".join(bytes.fromhex(piece.bytes) for piece in found) == data
    assert "".join(piece.text for piece in found) == text
    assert all(text[piece.start : piece.end] == piece.text for piece in found)
    try:
        whole = data.decode()
    except UnicodeDecodeError:
        return
    assert text == whole
    assert sum(piece.text.count("\ufffd") for piece in found) == whole.count("\ufffd")


@pytest.mark.parametrize("style", ["byte_level", *STYLES])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_ids_are_cut_checked_shown_and_read(
    styled: dict[tuple[str, str], Family], name: str, style: str, data: st.DataObject
) -> None:
    family = styled[name, style]
    ids = draw_ids(data, family)
    prompt = family.prompt_ids(data.draw(st.sampled_from([OPENED, CLOSED, SILENT])))
    found = inspect(family.bound, family.tokenizer, prompt, ids, "length", None)
    joined = [number for part in found.segmentation.segments for number in ids[part.start : part.end]]
    assert joined == ids
    array = np.array(ids, dtype=np.uint32)
    more = inspect_text(family.bound, family.tokenizer, "hi", array, found.segmentation, off=frozenset())
    for flag in (*found.flags, *more):
        assert flag.start is not None
        assert flag.end is not None
        assert 0 <= flag.start <= flag.end <= len(ids)
    check_pieces(family.tokenizer, ids, pieces(family.tokenizer, ids))
    for part in found.segmentation.segments:
        if part.kind == "tool_call":
            assert read_calls(family.bound, family.tokenizer, ids[part.start : part.end])
    engine_readings(family.bound, family.tokenizer, array, found.segmentation)


@pytest.mark.parametrize("style", ["byte_level", *STYLES])
@pytest.mark.parametrize("name", NAMES)
def test_a_character_of_several_ids_is_one_group_beside_any_marker(
    styled: dict[tuple[str, str], Family], name: str, style: str
) -> None:
    family = styled[name, style]
    markers = "".join(text for text in family.bound.format.markers() if text in family.bound.ids)
    ids = family.ids(f"{markers}🦙{markers}🦙🦙{markers}")
    found = pieces(family.tokenizer, ids)
    check_pieces(family.tokenizer, ids, found)
    shown = [piece for piece in found if "🦙" in piece.text]
    assert [piece.text.strip() for piece in shown] == ["🦙"] * 3
    assert not any("\ufffd" in piece.text for piece in found)
    for piece in shown:
        assert piece.group is not None
        assert piece.group[0] == 0
        assert piece.group[1] >= 3


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", [name for name in NAMES if get_format(name).think])
def test_an_answer_is_cut_the_same_in_every_style(styled: dict[tuple[str, str], Family], name: str, style: str) -> None:
    cut = []
    for family in (styled[name, "byte_level"], styled[name, style]):
        think = family.bound.format.think
        assert think is not None
        output = f"{think.open}one 🦙{think.close}two{family.bound.format.stops[0]}"
        ids = family.ids(output)
        segments = family.bound.segment(family.prompt_ids(), ids).segments
        told = [(part.kind, family.tokenizer.decode(ids[part.start : part.end]).strip()) for part in segments]
        cut.append([item for item in told if item[1]])  # a space that the tokenizer puts first may stand by itself
    assert cut[0] == cut[1]
    assert ("reasoning", "one 🦙") in cut[0]


def make_tiktoken_like(folder: Path) -> Path:
    """A checkpoint whose tokenizer is code of its own around ranked bytes, as Kimi's is: no tokenizer.json beside it."""
    folder.mkdir()
    (folder / "tokenization_own.py").write_text(
        "from transformers import PreTrainedTokenizer\n"
        "from transformers.convert_slow_tokenizer import bytes_to_unicode\n"
        "class OwnTokenizer(PreTrainedTokenizer):\n"
        "    def __init__(self, **kwargs):\n"
        "        self.byte_encoder = bytes_to_unicode()\n"
        "        self.byte_decoder = {mark: byte for byte, mark in self.byte_encoder.items()}\n"
        "        super().__init__(**kwargs)\n"
        "    @property\n"
        "    def vocab_size(self): return 256\n"
        "    def get_vocab(self):\n"
        "        return {mark: byte for byte, mark in self.byte_encoder.items()} | self.added_tokens_encoder\n"
        "    def _tokenize(self, text, **kwargs): return [self.byte_encoder[byte] for byte in text.encode()]\n"
        "    def _convert_token_to_id(self, token): return self.byte_decoder.get(token)\n"
        "    def _convert_id_to_token(self, index): return self.byte_encoder.get(index, '')\n"
    )
    added = {
        str(256 + place): {"content": item.content, "special": item.special, "lstrip": False, "rstrip": False}
        for place, item in enumerate(tiny.KIMI_K2)
    }
    settings_ = {
        "tokenizer_class": "OwnTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]},
        "added_tokens_decoder": added,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings_))
    (folder / "tiktoken.model").write_text("")
    return folder


def test_a_tokenizer_of_ranked_bytes_shows_characters_whole_and_cuts_kimis_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    tokenizer = load_folder("own", make_tiktoken_like(tmp_path / "own"), allow_remote_code=True)
    family = Family(bind(get_format("kimi_k2"), tokenizer), tokenizer, "<|im_assistant|>assistant<|im_middle|>")
    output = f"<think>{SPLIT}</think>🦙 a<|im_end|>"
    ids = family.ids(output)
    assert tokenizer.decode(ids) == output
    assert [(part.kind, tokenizer.decode(ids[part.start : part.end])) for part in family.segment(output).segments] == [
        ("control", "<think>"),
        ("reasoning", SPLIT),
        ("control", "</think>"),
        ("content", "🦙 a"),
        ("control", "<|im_end|>"),
    ]
    found = pieces(tokenizer, ids)
    check_pieces(tokenizer, ids, found)
    assert [piece.text for piece in found if piece.group and piece.text] == [*SPLIT, "🦙"]
    for cut in range(len(ids)):
        check_pieces(tokenizer, ids[cut:], pieces(tokenizer, ids[cut:]))
        check_pieces(tokenizer, ids[:cut], pieces(tokenizer, ids[:cut]))
