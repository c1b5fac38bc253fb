"""Delimiters without a token of their own are matched as the ids that spell them, and said so; elsewhere a spelling is text."""

from pathlib import Path

import pytest

from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import bind, get_format
from inference.tokens.toolcalls import read_call
from tests.support import tiny_tokenizers as tiny
from tests.support.families import Family
from tests.support.tokenizers import real_tokenizer


@pytest.fixture(scope="module")
def v3() -> Family:
    """The original V3 on its real vocabulary, where `<think>` is three ordinary ids."""
    tokenizer = real_tokenizer("deepseek_v3")
    return Family(bind(get_format("deepseek_v3"), tokenizer), tokenizer, "<｜User｜>hi<｜Assistant｜>")


def test_the_original_deepseek_v3_spells_think_with_three_ids(v3: Family) -> None:
    assert v3.bound.spelled == {"<think>": [30, 37947, 32], "</think>": [1718, 37947, 32]}
    assert any("30, 37947, 32" in remark for remark in v3.bound.remarks)
    assert v3.tiles("<think>plan</think>Answer<｜end▁of▁sentence｜>") == [
        ("control", "<think>"),
        ("reasoning", "plan"),
        ("control", "</think>"),
        ("content", "Answer"),
        ("control", "<｜end▁of▁sentence｜>"),
    ]


def test_white_space_that_an_id_shares_with_a_spelled_delimiter_is_part_of_the_delimiter(v3: Family) -> None:
    output = "<think>\nplan\n</think>\n\nAnswer"
    tiles = v3.tiles(output)
    assert "".join(text for _, text in tiles) == output
    assert [(kind, text.strip()) for kind, text in tiles] == [
        ("control", "<think>"),
        ("reasoning", "plan"),
        ("control", "</think>"),
        ("content", "Answer"),
    ]
    assert v3.segment(output).notes == ()


def test_any_ids_that_spell_the_delimiter_act(v3: Family) -> None:
    letters = [number for character in "</think>" for number in v3.ids(character)]
    ids = [*v3.ids("<think>plan"), *letters, *v3.ids("Answer")]
    assert [part.kind for part in v3.bound.segment(v3.prompt_ids(), ids).segments] == [
        "control",
        "reasoning",
        "control",
        "content",
    ]


def test_text_that_an_id_shares_with_a_spelled_delimiter_stays_text_and_is_noted(tmp_path: Path) -> None:
    """The bracket that ends the marker and what follows it are one id in many vocabularies: the call is read all the same."""
    added = ["<|im_start|>", "<|im_end|>", tiny.Added('>{"', special=False), tiny.Added("}}<", special=False)]
    folder = tiny.make_tokenizer(tmp_path / "hermes", added=added)
    tokenizer = TokenizerCache([tmp_path], allow_remote_code=False).get(str(folder))
    family = Family(bind(get_format("hermes"), tokenizer), tokenizer, "<|im_start|>assistant\n")
    output = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call><|im_end|>'
    assert family.tiles(output) == [
        ("control", "<tool_call"),
        ("tool_call", '>{"name": "f", "arguments": {"a": 1}}<'),
        ("control", "/tool_call>"),
        ("control", "<|im_end|>"),
    ]
    found = family.segment(output)
    assert [note.code for note in found.notes] == ["delimiter_shared", "delimiter_shared"]
    call = found.segments[1]
    read = read_call(family.bound, tokenizer, family.ids(output)[call.start : call.end])
    assert (read.name, read.arguments, read.error) == ("f", '{"a": 1}', None)
    assert family.codes(output) == ["delimiter_shared", "delimiter_shared"]


def test_the_state_of_the_prompt_is_read_from_spelled_delimiters(v3: Family) -> None:
    found = v3.bound.segment(v3.prompt_ids("<think>\n"), v3.ids("plan</think>Answer"))
    assert found.prompt_state == "open"
    assert [part.kind for part in found.segments] == ["reasoning", "control", "content"]


def test_a_spelling_is_text_where_the_vocabulary_has_the_token(qwen3: Family) -> None:
    spelled = [number for character in "</think>" for number in qwen3.ids(character)]
    ids = [*qwen3.ids("<think>plan"), *spelled, *qwen3.ids("more</think>Answer")]
    assert [part.kind for part in qwen3.bound.segment(qwen3.prompt_ids(), ids).segments] == [
        "control",
        "reasoning",
        "control",
        "content",
    ]
    assert qwen3.bound.remarks == ()


def test_dsml_calls_are_found_around_their_one_token(families: dict[str, Family]) -> None:
    family = families["deepseek_v32"]
    body = '\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="x" string="true">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    output = f"Look.\n\n<｜DSML｜function_calls>{body}</｜DSML｜function_calls><｜end▁of▁sentence｜>"
    tiles = family.tiles(output)
    assert [kind for kind, _ in tiles] == ["content", "control", "tool_call", "control", "control"]
    assert "".join(text for _, text in tiles) == output
    assert tiles[2][1].strip() == body.strip()


def test_markers_with_a_suffix_are_found_by_their_name(tmp_path: Path) -> None:
    names = ("<think>", "</think>", "<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>", "<tool_sep>")
    added = [text.replace(">", ":opensource>") for text in names]
    added += ["<｜hy_Assistant:opensource｜>", "<｜hy_User:opensource｜>", "<｜hy_eos:opensource｜>"]
    folder = tiny.make_tokenizer(tmp_path / "hy", added=added, eos="<｜hy_eos:opensource｜>", template="{# hy_User #}")
    tokenizer = TokenizerCache([tmp_path], allow_remote_code=False).get(str(folder))
    bound = bind(get_format("hunyuan"), tokenizer)
    assert bound.spelled == {}
    family = Family(bound, tokenizer, "<｜hy_User:opensource｜>hi<｜hy_Assistant:opensource｜>")
    assert family.tiles("<think:opensource>a</think:opensource>b<｜hy_eos:opensource｜>") == [
        ("control", "<think:opensource>"),
        ("reasoning", "a"),
        ("control", "</think:opensource>"),
        ("content", "b"),
        ("control", "<｜hy_eos:opensource｜>"),
    ]
