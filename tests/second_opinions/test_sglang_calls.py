"""Tool calls read from ids against SGLang's detectors, which read text: every difference is one we mean."""

import ast
import json
from dataclasses import dataclass
from typing import Any

import pytest

from inference.tokens.formats import all_formats
from inference.tokens.payloads.arguments import RawText
from inference.tokens.toolcalls import read_calls
from tests.second_opinions.callcorpus import GRAMMARS, TOOLS
from tests.second_opinions.conftest import Opinions
from tests.support.families import Family

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(700)]

Calls = list[tuple[str | None, Any]]


@dataclass(frozen=True)
class Listed:
    """Why we differ, and on which samples of which formats."""

    why: str
    samples: dict[tuple[str, ...], tuple[str, ...]]

    def pairs(self) -> set[tuple[str, str]]:
        return {(name, label) for names, labels in self.samples.items() for name in names for label in labels}


DEEPSEEK = ("deepseek_r1", "deepseek_v3", "deepseek_v31")
LISTED = (
    Listed(
        "A call of a tool that the prompt does not offer is a call, with a flag; they drop it, and nobody learns of it.",
        {
            (
                *("qwen3", "hermes", *DEEPSEEK, "deepseek_v32", "glm45", "hunyuan", "minimax_m2", "step3"),
                *("gpt_oss", "llama3", "magistral"),
            ): ("unknown tool", "hyphen in the name"),
        },
    ),
    Listed(
        "A call without a name has no name to return, and a flag; they return one named ''.",
        {("qwen3_coder", "qwen35", "nemotron"): ("no name",)},
    ),
    Listed(
        "What stands before the cut is whole, and is read and flagged as not closed; they return no call.",
        {("qwen3", "kimi_k2", *DEEPSEEK, "glm45", "hunyuan", "minimax_m2", "step3", "gpt_oss"): ("cut off",)},
    ),
    Listed(
        "A broken call does not take its neighbours along; one error and they return none, or one that swallows the next.",
        {
            ("hermes", *DEEPSEEK): ("a broken one before a sound one", "a sound one before a broken one"),
            ("kimi_k2", "magistral"): ("a broken one before a sound one",),
            ("gpt_oss",): ("a sound one before a broken one",),
        },
    ),
    Listed(
        "Arguments are an object; a string that holds one, a list, or nothing at all is flagged, and they hand it on.",
        {
            ("qwen3", "hermes", *DEEPSEEK, "llama3"): ("encoded twice", "a list"),
            ("gpt_oss",): ("encoded twice", "a list", "nothing"),
            ("magistral",): ("a list",),
        },
    ),
    Listed(
        "JSON that is none is flagged where it breaks; they mend it.",
        {("llama3",): ("lone backslash", "comma too many", "python")},
    ),
    Listed(
        "No token ends a call in these families, so the text behind its arguments is part of it, and flagged; they drop that text.",
        {("llama3", "magistral"): ("text around",)},
    ),
    Listed(
        'A parameter marked string="false" holds JSON; what is none is flagged, and they make text of it.',
        {
            ("deepseek_v32",): (
                *("python", "not a number", "broken object"),
                *("a broken one before a sound one", "a sound one before a broken one"),
            )
        },
    ),
    Listed(
        "A string parameter keeps its text; they make Python's None of the word null.",
        {("glm45",): ("json word as text",)},
    ),
    Listed(
        "A call without parameters is a call, and a value may hold <; their pattern finds neither.",
        {("step3",): ("empty", "brackets")},
    ),
)
DECLARED = [name for name in GRAMMARS if name in {item.name for item in all_formats()}]


def ours(family: Family, text: str) -> Calls:
    """Name and arguments of the calls that could be read; closed or not, a whole call is one."""
    ids = family.ids(text)
    found = family.bound.segment(family.prompt_ids(), ids)
    calls = []
    for kind, start, end, *_ in found.segments:
        if kind == "tool_call":
            calls += [call for call in read_calls(family.bound, family.tokenizer, ids[start:end], TOOLS) if call.valid]
    return [(call.name, call.value) for call in calls]


def theirs(found: list[tuple[str | None, str]]) -> Calls:
    """Theirs whose arguments can be read; some detectors hand broken ones on as they are, as we do with a flag."""
    read = [(name, readable(text)) for name, text in found]
    return [(name, value) for name, value in read if not isinstance(value, Unreadable)]


class Unreadable(str):
    """Text that is neither JSON nor a literal of Python."""

    __slots__ = ()


def readable(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError:
        return Unreadable(text)


def typed(text: str) -> Any:
    """Bare text as they type it: JSON, else a literal of Python, else text without whitespace around it."""
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError:
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):
            return text.strip()


def plain(value: Any, other: Any) -> Any:
    """Our value as theirs is written: bare text is typed where they typed it; numbers keep their digits as text."""
    if isinstance(value, RawText):
        if isinstance(other, str):  # some take the whitespace around a value off
            return other if value.strip() == other.strip() else value
        return typed(value)
    if isinstance(value, dict) and isinstance(other, dict):
        return {key: plain(item, other.get(key)) for key, item in value.items()}
    return value


def alike(left: Calls, right: Calls) -> bool:
    return len(left) == len(right) and all(
        name == other and same(plain(value, said), said)
        for (name, value), (other, said) in zip(left, right, strict=True)
    )


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(one, two) for one, two in zip(left, right, strict=True))
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    return str(left) == str(right) or number(left) == number(right) != ""


def number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return ""


def differences(name: str, family: Family, sglang: Opinions) -> dict[str, tuple[Calls, Calls]]:
    grammar = GRAMMARS[name]
    found = {}
    for label, text in grammar.samples():
        mine, said = ours(family, text), theirs(sglang.calls[grammar.key, text])
        if not alike(mine, said):
            found[label] = (mine, said)
    return found


@pytest.fixture(scope="module")
def found(families: dict[str, Family], sglang: Opinions) -> dict[tuple[str, str], tuple[Calls, Calls]]:
    """(ours, theirs) where we differ, by (format, label)."""
    return {
        (name, label): both for name in DECLARED for label, both in differences(name, families[name], sglang).items()
    }


def test_every_difference_is_one_we_mean(found: dict[tuple[str, str], tuple[Calls, Calls]]) -> None:
    listed = set().union(*(item.pairs() for item in LISTED))
    assert {key: both for key, both in found.items() if key not in listed} == {}


@pytest.mark.parametrize("item", LISTED, ids=lambda item: item.why[:40])
def test_every_listed_difference_is_still_one(item: Listed, found: dict[tuple[str, str], tuple[Calls, Calls]]) -> None:
    assert {(name, label) for name, label in item.pairs() if name in DECLARED} <= set(found)


def test_sound_calls_are_read_alike_everywhere(found: dict[tuple[str, str], tuple[Calls, Calls]]) -> None:
    sound = {"plain", "nested", "typed", "unicode", "escapes", "spaces", "numbers", "lines", "quotes", "two calls"}
    assert {key for key in found if key[1] in sound} == set()


def test_every_format_with_calls_has_a_sample() -> None:
    assert {item.name for item in all_formats() if item.payload} <= set(GRAMMARS)
