"""Formats are declarations bound by token text; what does not fit a vocabulary is refused in words."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inference.quality.inspection import inspect
from inference.tokens import formats
from inference.tokens.cache import TokenizerCache
from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.formats import all_formats, bind, get_format
from inference.tokens.payloads.payload import ToolCall
from inference.tokens.segmentation.roles import Role
from inference.tokens.sglang.reasoning import PARSERS
from inference.tokens.suggestion import suggest
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.toolcalls import read_calls
from tests.second_opinions.callcorpus import GRAMMARS, TOOLS
from tests.support import tiny_tokenizers as tiny
from tests.support.families import CLOSED, NAMES, OPENED, SILENT, Family, make_vocabulary
from tests.support.tokenizers import real_tokenizer
from tests.tokens.test_grammars_anything import READERS

ROLE_NAMES = {role: name for name, role in vars(Role).items() if type(role) is int}


def load(folder: Path) -> Tokenizer:
    return TokenizerCache([folder], allow_remote_code=False).get(str(folder))


def test_no_family_is_lost() -> None:
    """A new family need not be named here."""
    known = (
        "qwen3 qwen3_coder qwen35 kimi_k2 deepseek_r1 deepseek_v3 deepseek_v31 deepseek_v32 glm45 gpt_oss minimax_m2 "
        "magistral hermes llama3 step3 nemotron hunyuan none"
    )
    assert set(known.split()) - {item.name for item in all_formats()} == set()
    assert all_formats()[-1].name == "none"


def test_each_file_declares_the_family_it_is_named_after() -> None:
    files = [module.name for module in pkgutil.iter_modules(formats.__path__)]
    declared = {file: importlib.import_module(f"{formats.__name__}.{file}").FORMAT.name for file in files}
    assert {file: name for file, name in declared.items() if file != name} == {}


@pytest.mark.parametrize("declared", all_formats(), ids=lambda item: item.name)
def test_a_declaration_is_whole(declared: TokenFormat) -> None:
    assert list(faults(declared)) == []


def faults(declared: TokenFormat) -> Iterator[str]:
    """What is wrong with a declaration taken by itself, each as the sentence that mends it."""
    if not declared.title:
        yield "title: say in words which models it is for."
    if (declared.calls or declared.messages) and declared.payload is None:
        yield "payload: calls are declared, and nothing reads them."
    if declared.payload and not (declared.calls or declared.messages):
        yield "payload: there is a reader, and no markers say where a call is."
    for text in sorted({*declared.spelled} - {*declared.markers()}):
        yield f"spelled: {text} is none of the markers."
    for text in sorted({*declared.spelled} & {*declared.signature}):
        yield f"signature: {text} may be spelled, so a vocabulary without it would pass for one that has it."
    for key in sorted({*declared.reasoning_parsers} - {*PARSERS}):
        yield f"reasoning_parsers: {key} is no key in inference/tokens/sglang/reasoning.py."
    roles: dict[str, list[str]] = {}
    for text, role in declared.delimiters():
        roles.setdefault(text, []).append(ROLE_NAMES[role])
    for text, held in roles.items():
        if len(held) > 1 and held != ["SPEAKER", "STOP"]:  # a stop may be the next speaker's marker
            yield f"{text} is declared as {' and as '.join(held)}; a marker does one thing."
    if declared.name != "none":
        if not (declared.signature or declared.template_signs or declared.model_types):
            yield "signature: nothing tells this family from others, so it would never be suggested."
        if not declared.stops:
            yield "stops: name what ends an answer."
        if not (declared.turn_starts or declared.messages):
            yield "turn_starts: name what begins a turn, or an earlier turn's thought is taken for this one's."


def test_faults_of_a_declaration_are_told_as_what_mends_them() -> None:
    good = get_format("kimi_k2")
    assert good.think is not None
    assert good.calls is not None
    for wrong, told in (
        (replace(good, title=""), "title: "),
        (replace(good, payload=None), "payload: calls are declared"),
        (replace(good, calls=None, think=None, spelled=()), "payload: there is a reader"),
        (replace(good, spelled=("<calls>",)), "spelled: <calls> "),
        (replace(good, spelled=(good.signature[0],)), f"signature: {good.signature[0]} may be spelled"),
        (replace(good, reasoning_parsers=("kimi_k9",)), "reasoning_parsers: kimi_k9 "),
        (
            replace(good, think=replace(good.think, close="<think>")),
            "<think> is declared as THINK_OPEN and as THINK_CLOSE",
        ),
        (
            replace(good, calls=replace(good.calls, end="</think>")),
            "</think> is declared as THINK_CLOSE and as CALL_END",
        ),
        (replace(good, turn_starts=("<|im_user|>",) * 2), "<|im_user|> is declared as SPEAKER and as SPEAKER"),
        (replace(good, signature=()), "signature: nothing tells"),
        (replace(good, stops=()), "stops: "),
        (replace(good, turn_starts=()), "turn_starts: "),
    ):
        assert [fault.startswith(told) for fault in faults(wrong)] == [True], told


@pytest.mark.parametrize("name", [item.name for item in all_formats() if item.payload])
def test_calls_written_by_hand_as_the_family_writes_them_are_read(families: dict[str, Family], name: str) -> None:
    """The samples spell each marker out: a slip in a declaration cannot be in them too."""
    assert name in GRAMMARS, f"Write down how {name} writes a call: a row in tests/second_opinions/callcorpus.py."
    family, samples = families[name], dict(GRAMMARS[name].samples())
    state = CLOSED
    wanted = {"plain": ["get_time"], "two calls": ["get_time", "search.web"]}
    if family.bound.format.messages:  # harmony: the prompt begins the message, and a call ends the answer
        state, wanted = SILENT, {"plain": ["get_time"]}
    for label, named in wanted.items():
        answer = samples[label].removeprefix("<|start|>assistant")
        answer += "" if family.bound.format.messages else family.bound.format.stops[0]
        calls: list[ToolCall] = []
        for kind, text in family.tiles(answer, state):
            assert kind in {"control", "tool_call"}, f"No marker declared for {name} acts in {text!r}."
            if kind == "tool_call":
                calls += read_calls(family.bound, family.tokenizer, family.ids(text), TOOLS)
        assert [note.code for note in family.segment(answer, state).notes] == [], answer
        assert [call.error and call.error.message for call in calls] == [None] * len(named), answer
        assert [(call.name, call.value) for call in calls] == [(tool, {"s": "Oslo", "i": "3"}) for tool in named]


def test_every_reader_goes_through_the_tests_of_any_payload() -> None:
    used = {item.payload for item in all_formats() if item.payload}
    assert used - {*READERS} == set(), "Add the reader to READERS in tests/tokens/test_grammars_anything.py."


@pytest.mark.parametrize("name", NAMES[:-1])
def test_each_family_is_suggested_for_a_folder_that_shows_its_signs(tmp_path: Path, name: str) -> None:
    found = suggest(load(make_vocabulary(tmp_path, get_format(name), optional=False)))
    assert found.name == name, (
        f"{found.name} goes first, because: {found.reason} The signs of {name} must be more, or others."
    )
    assert found.reason.endswith(".")


def test_the_models_type_goes_before_any_number_of_signs(tmp_path: Path) -> None:
    declared = get_format("nemotron")
    folder = make_vocabulary(tmp_path, declared)
    template = json.loads((folder / "tokenizer_config.json").read_text())
    template["chat_template"] = "{# nothing that tells #}"
    (folder / "tokenizer_config.json").write_text(json.dumps(template))
    found = suggest(load(folder))
    assert found.name == "nemotron"
    assert found.reason.startswith("Its config names the model type nemotron_h; its vocabulary has <think>")
    assert "qwen3" in found.alternatives


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_answer_is_cut_into_thought_answer_and_calls(families: dict[str, Family], name: str) -> None:
    """What every family with these parts has in common, written with its own markers."""
    family = families[name]
    declared = family.bound.format
    if declared.messages:
        return  # has tests of its own
    output, kinds = "", []
    if declared.think:
        output += f"{declared.think.open}plan{declared.think.close}"
        kinds += ["reasoning"]
    output += "Answer"
    kinds += ["content"]
    if declared.calls:
        calls = declared.calls
        one = f"{calls.begin}payload{calls.end or ''}"
        output += f"{calls.section_begin or ''}{one}{one}{calls.section_end or ''}"
        kinds += ["tool_call", "tool_call"]
    output += declared.stops[0] if declared.stops else "<|im_end|>"
    found = family.segment(output)
    assert [part.kind for part in found.segments if part.kind != "control"] == kinds
    assert found.notes == ()
    assert family.tiles(output)[-1] == ("control", declared.stops[0] if declared.stops else "<|im_end|>")


def test_an_unknown_format_is_named_beside_those_there_are() -> None:
    with pytest.raises(
        TokensError, match=r"no token format llama9; there are .*\bdeepseek_r1, deepseek_v3, "
    ) as caught:
        get_format("llama9")
    assert (caught.value.code, caught.value.field) == ("format_unknown", "token_format")


def test_real_qwen3_binds_by_text_though_its_markers_are_not_special() -> None:
    tokenizer = real_tokenizer("qwen3")
    bound = bind(get_format("qwen3"), tokenizer)
    assert (bound.ids["<think>"], bound.ids["</think>"]) == (151667, 151668)
    assert (bound.ids["<tool_call>"], bound.ids["</tool_call>"]) == (151657, 151658)
    assert tokenizer.kind_of(151667) == "added"
    assert bound.stop_ids == {151645}
    assert suggest(tokenizer).name == "qwen3"


def test_original_deepseek_v3_is_refused_because_think_is_three_ids() -> None:
    tokenizer = real_tokenizer("deepseek_v3")
    with pytest.raises(TokensError, match=r"<think> \(spelled with 3 ordinary ids\)") as caught:
        bind(get_format("deepseek_r1"), tokenizer)
    assert caught.value.code == "format_not_in_vocabulary"
    assert suggest(tokenizer).name == "deepseek_v3"


def test_kimi_ids_are_read_from_the_vocabulary(kimi: Family) -> None:
    assert kimi.bound.ids["<think>"] == 163606
    assert kimi.bound.ids["</think>"] == 163607
    assert kimi.bound.stop_ids == {163585, 163586}
    assert suggest(kimi.tokenizer).name == "kimi_k2"


def test_deepseek_r1_is_suggested_where_think_is_one_id(deepseek: Family) -> None:
    assert suggest(deepseek.tokenizer).name == "deepseek_r1"


def test_kimi_without_think_tokens_binds_and_expects_no_reasoning(tmp_path: Path) -> None:
    added = [item for item in tiny.KIMI_K2 if "think" not in item.content]
    bound = bind(get_format("kimi_k2"), load(tiny.make_tokenizer(tmp_path, added=added, template=tiny.KIMI_TEMPLATE)))
    assert not bound.thinks
    assert bound.expects_reasoning("none") is False


def test_half_a_pair_of_markers_opens_nothing(tmp_path: Path) -> None:
    added = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>"]
    bound = bind(get_format("qwen3"), load(tiny.make_tokenizer(tmp_path, added=added)))
    assert "<tool_call>" not in bound.ids


@pytest.mark.parametrize(
    ("family", "think", "due"),
    [
        ("qwen3", OPENED, True),
        ("qwen3", CLOSED, False),
        ("qwen3", SILENT, True),  # the template knows the block, the model opens it
        ("kimi_k2", SILENT, True),
        ("deepseek_r1", SILENT, True),
        ("none", SILENT, False),
    ],
)
def test_reasoning_is_due_by_prompt_and_family(families: dict[str, Family], family: str, think: str, due: bool) -> None:
    one = families[family]
    state = one.bound.prompt_state(np.array(one.prompt_ids(think), dtype=np.uint32))
    assert one.bound.expects_reasoning(state) is due


@pytest.mark.parametrize(
    ("asked", "due"),
    [
        ("Hi /no_think", False),
        ("Hi /think", True),
        ("Hi /no_think<|im_end|>\n<|im_start|>user\nThink again /think", True),
        ("Hi /think<|im_end|>\n<|im_start|>user\nNo more /no_think", False),
    ],
)
def test_the_last_word_that_switches_reasoning_holds(qwen3: Family, asked: str, due: bool) -> None:
    prompt = qwen3.ids(f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n")
    answer = qwen3.ids("<think>\n\n</think>\n\nHi<|im_end|>")
    found = inspect(qwen3.bound, qwen3.tokenizer, prompt, answer, "stop", answer[-1])
    assert ("reasoning_empty" in [flag.code for flag in found.flags]) is due
    opened = qwen3.bound.segment([*prompt, *qwen3.ids("<think>")], answer)
    assert opened.prompt_state == "open"


def test_an_instruct_model_whose_template_knows_no_think_block_is_not_expected_to_think(tmp_path: Path) -> None:
    plain = "{% for m in messages %}<|im_start|>{{ m.role + '\\n' + m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    bound = bind(get_format("qwen3"), load(tiny.make_tokenizer(tmp_path, template=plain)))
    assert bound.expects_reasoning("none") is False
    assert bound.expects_reasoning("open") is True


def test_without_a_prompt_nobody_can_tell(qwen3: Family) -> None:
    assert qwen3.bound.segment(None, [5]).prompt_state == "unknown"
    assert qwen3.bound.expects_reasoning("unknown") is None


def test_a_demo_like_vocabulary_with_small_ids_works(tmp_path: Path) -> None:
    tiny.make_tokenizer(
        tmp_path, added=["<|im_start|>", "<|im_end|>", "<think>", "</think>"], template=tiny.CHATML_OPENED
    )
    bound = bind(get_format("qwen3"), load(tmp_path))
    assert max(bound.ids.values()) < 700
    assert json.loads((tmp_path / "config.json").read_text())["vocab_size"] == max(bound.ids.values()) + 1
