"""Loading is confined and clear; bytes are exact in every style."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.tokens.cache import TokenizerCache
from inference.tokens.errors import TokensError
from inference.tokens.ids import as_ids
from inference.tokens.tokenizer import Tokenizer
from tests.support import tiny_tokenizers as tiny
from tests.support.tokenizers import NAMES, real_tokenizer

TEXTS = [
    "héllo 🙂🦙 👩‍💻 𝒳",
    "\n\n\t x\u3000y\u00a0z",
    "日本語。def f():\n    return 1",
    "<think>a</think>",
    "\x00\x1b[0m",
    "",
]


def refused(cache: TokenizerCache, name: str) -> str:
    with pytest.raises(TokensError) as caught:
        cache.get(name)
    assert caught.value.field == "tokenizer"
    return caught.value.code


def test_a_folder_loads_by_absolute_path_and_by_name_under_a_root(tmp_path: Path) -> None:
    folder = tiny.make_tokenizer(tmp_path / "org" / "model")
    cache = TokenizerCache([tmp_path], allow_remote_code=False)
    assert cache.get(str(folder)) is cache.get("org/model")


def test_paths_outside_the_roots_are_refused_symlinks_followed(tmp_path: Path) -> None:
    outside = tiny.make_tokenizer(tmp_path / "outside")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    cache = TokenizerCache([root], allow_remote_code=False)
    assert refused(cache, str(outside)) == "tokenizer_outside_roots"
    assert refused(cache, "link") == "tokenizer_outside_roots"
    assert refused(cache, "../outside") == "tokenizer_outside_roots"
    assert refused(cache, f"{root}/../outside") == "tokenizer_outside_roots"


def test_what_lies_outside_the_roots_cannot_be_found_out(tmp_path: Path) -> None:
    cache = TokenizerCache([tmp_path / "root"], allow_remote_code=False)
    (tmp_path / "there").mkdir()
    assert refused(cache, f"{tmp_path}/there") == refused(cache, f"{tmp_path}/not there") == "tokenizer_outside_roots"


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x", "x" * 300, "x" * 5000])
def test_a_name_that_no_file_system_takes_is_a_missing_tokenizer(tmp_path: Path, name: str) -> None:
    assert refused(TokenizerCache([tmp_path], allow_remote_code=False), name) == "tokenizer_missing"


def test_a_file_that_leads_out_of_the_roots_is_refused(tmp_path: Path) -> None:
    outside = tiny.make_tokenizer(tmp_path / "outside")
    inside = tmp_path / "root" / "model"
    inside.mkdir(parents=True)
    (inside / "tokenizer.json").symlink_to(outside / "tokenizer.json")
    assert refused(TokenizerCache([tmp_path / "root"], allow_remote_code=False), "model") == "tokenizer_outside_roots"


@pytest.mark.parametrize("name", ["", "   ", "missing", "a/b/c", "-x/y", "org/..", "a\0b"])
def test_names_that_are_nothing_are_refused_without_asking_the_hub(tmp_path: Path, name: str) -> None:
    assert refused(TokenizerCache([tmp_path], allow_remote_code=False), name) in {
        "tokenizer_missing",
        "tokenizer_outside_roots",
    }


def test_an_empty_folder_and_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    cache = TokenizerCache([tmp_path], allow_remote_code=False)
    assert refused(cache, "empty") == "tokenizer_missing"
    assert refused(cache, "file") == "tokenizer_missing"


def test_a_broken_tokenizer_says_so(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert refused(TokenizerCache([tmp_path], allow_remote_code=False), str(tmp_path)) == "tokenizer_unreadable"


def test_a_model_that_transformers_does_not_know_still_has_its_tokenizer(tmp_path: Path) -> None:
    folder = tiny.make_tokenizer(tmp_path, config={"model_type": "kimi_k99", "auto_map": {"AutoConfig": "none.Such"}})
    (folder / "tokenizer_config.json").write_text("{}")
    tokenizer = TokenizerCache([tmp_path], allow_remote_code=False).get(str(folder))
    assert tokenizer.id_of("<think>") == 151667


def make_own_code(folder: Path) -> Path:
    """A checkpoint whose tokenizer is Python of its own (characters by code point), and a witness file where it ran."""
    folder.mkdir()
    (folder / "tokenization_own.py").write_text(
        "from pathlib import Path\n"
        "from transformers import PreTrainedTokenizer\n"
        f"Path({str(folder / 'ran')!r}).write_text('yes')\n"
        "class OwnTokenizer(PreTrainedTokenizer):\n"
        "    @property\n"
        "    def vocab_size(self): return 128\n"
        "    def get_vocab(self): return {chr(i): i for i in range(128)} | self.added_tokens_encoder\n"
        "    def _tokenize(self, text, **kwargs): return list(text)\n"
        "    def _convert_token_to_id(self, token): return ord(token) if len(token) == 1 else None\n"
        "    def _convert_id_to_token(self, index): return chr(index)\n"
    )
    settings_ = {
        "tokenizer_class": "OwnTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings_))
    (folder / "tiktoken.model").write_text("")
    return folder


def test_a_checkpoints_own_code_runs_only_where_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = make_own_code(tmp_path / "own")
    with pytest.raises(TokensError, match="DRAFTMILL_ALLOW_REMOTE_CODE") as caught:
        TokenizerCache([tmp_path], allow_remote_code=False).get("own")
    assert caught.value.code == "remote_code_refused"
    assert not (folder / "ran").exists()
    allowed = TokenizerCache([tmp_path], allow_remote_code=True).get("own")
    assert (folder / "ran").exists()
    ids = allowed.encode("a b")
    assert ids == [97, 32, 98]
    assert allowed.decode(ids) == "a b"


def test_changed_files_are_loaded_again_and_hash_anew(tmp_path: Path) -> None:
    cache = TokenizerCache([tmp_path], allow_remote_code=False)
    before = cache.get(str(tiny.make_tokenizer(tmp_path / "a")))
    assert cache.get(str(tmp_path / "a")) is before
    after = cache.get(
        str(tiny.make_tokenizer(tmp_path / "a", added=[*tiny.QWEN3, "<extra>"], template=tiny.CHATML_OPENED))
    )
    assert after.sha256 != before.sha256
    assert after.template_sha256 != before.template_sha256


def test_sendable_ids_are_the_models_rows_padding_included(tmp_path: Path) -> None:
    padded = TokenizerCache([tmp_path], allow_remote_code=False).get(
        str(tiny.make_tokenizer(tmp_path / "padded", config={"vocab_size": 151936}))
    )
    assert padded.vocab_size == 151936
    assert padded.kind_of(151935) == "unknown"
    assert padded.token_bytes(151935) == b""
    nested = TokenizerCache([tmp_path], allow_remote_code=False).get(
        str(
            tiny.make_tokenizer(
                tmp_path / "nested", config={"vocab_size": None, "text_config": {"vocab_size": 152_000}}
            )
        )
    )
    assert nested.vocab_size == 152_000
    bare = tiny.make_tokenizer(tmp_path / "bare")
    (bare / "config.json").unlink()
    assert TokenizerCache([tmp_path], allow_remote_code=False).get("bare").vocab_size == 151_669


def test_stop_ids_come_from_all_three_places(tmp_path: Path) -> None:
    folder = tiny.make_tokenizer(tmp_path, stop=["<|endoftext|>"], config={"eos_token_id": 151643})
    assert TokenizerCache([tmp_path], allow_remote_code=False).get(str(folder)).stop_ids == {151643, 151645}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", TEXTS)
def test_real_tokenizers_give_back_the_exact_text(name: str, text: str) -> None:
    tokenizer = real_tokenizer(name)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bytes_agree_with_the_tokenizers_own_decoder(name: str, data: st.DataObject) -> None:
    tokenizer = real_tokenizer(name)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocabulary.size - 1), max_size=20))
    theirs = tokenizer.backend.backend_tokenizer.decode(ids, skip_special_tokens=False)
    assert tokenizer.decode(ids) == theirs


def spaced(tmp_path: Path, style: tiny.Style) -> Tokenizer:
    return TokenizerCache([tmp_path], allow_remote_code=False).get(
        str(tiny.make_tokenizer(tmp_path, style=style, added=["<think>", "</think>", "<|im_end|>"]))
    )


@pytest.mark.parametrize("style", ["byte_fallback", "sentencepiece"])
@pytest.mark.parametrize("text", TEXTS)
def test_byte_fallback_and_spaces_are_exact(tmp_path: Path, style: tiny.Style, text: str) -> None:
    tokenizer = spaced(tmp_path, style)
    data = tokenizer.bytes_of(tokenizer.encode(text))
    assert data.decode().replace(" ", "") == text.replace(
        " ", ""
    )  # the styles add spaces of their own, as bytes that stay


@pytest.mark.parametrize("style", ["byte_fallback", "sentencepiece"])
def test_a_byte_token_is_its_byte(tmp_path: Path, style: tiny.Style) -> None:
    tokenizer = spaced(tmp_path, style)
    newline = tokenizer.id_of("<0x0A>")
    assert newline is not None
    assert tokenizer.token_bytes(newline) == b"\n"
    assert tokenizer.kind_of(newline) == "byte"
    assert tokenizer.is_blank(np.array([newline], dtype=np.uint32))


def test_a_leading_space_that_a_decoder_would_drop_is_kept(tmp_path: Path) -> None:
    tokenizer = spaced(tmp_path, "byte_fallback")
    the = tokenizer.id_of(" The")
    assert the is not None
    assert tokenizer.decode([the]) == " The"


def test_large_ids_survive() -> None:
    assert as_ids([65_535, 65_536, 131_072, 200_012, 2**32 - 1]).tolist() == [
        65_535,
        65_536,
        131_072,
        200_012,
        2**32 - 1,
    ]
    assert real_tokenizer("gptoss").token_text(200_012) == "<|call|>"


@pytest.mark.parametrize("bad", [[-1], [2**32], [1.5], ["1"], [[1]], [True], [1, None], "12"])
def test_what_is_no_list_of_ids_is_refused(bad: object) -> None:
    with pytest.raises(TokensError) as caught:
        as_ids(bad, "output_ids")  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.field) == ("bad_ids", "output_ids")


def test_many_threads_may_encode_and_render_at_once(tmp_path: Path) -> None:
    from inference.tokens.rendering import render

    tokenizer = TokenizerCache([tmp_path], allow_remote_code=False).get(str(tiny.make_tokenizer(tmp_path)))
    want = render(tokenizer, [{"role": "user", "content": "The time"}]).ids.tolist()
    failures: list[object] = []

    def work() -> None:
        try:
            for _ in range(20):
                assert render(tokenizer, [{"role": "user", "content": "The time"}]).ids.tolist() == want
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("fetch", [True, False])
def test_a_hub_id_is_downloaded_only_where_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fetch: bool
) -> None:
    asked: list[bool] = []

    def snapshot(_name: str, *, local_files_only: bool, **_rest: object) -> str:
        asked.append(local_files_only)
        if local_files_only:
            raise OSError("not in the cache")
        return str(tiny.make_tokenizer(tmp_path / "fetched"))

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    cache = TokenizerCache([], allow_remote_code=False)
    if fetch:
        assert cache.get("org/name").name == "org/name"
    else:
        with pytest.raises(TokensError, match="an operator's render"):
            cache.get("org/name", fetch=False)
    assert asked == [not fetch]
