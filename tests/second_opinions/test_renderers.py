"""Our segments against PyPI `renderers`, the other reader that goes by ids: every difference is one we mean."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import bind
from tests.second_opinions.answers import TOOLS, Case, answers, bare, differing, usual
from tests.second_opinions.peer_reader import renderer
from tests.second_opinions.peers import DECLARED, PEERS
from tests.support.families import Family, make_vocabulary

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Reason:
    """Why we differ in these fields, wherever `holds`."""

    why: str
    fields: frozenset[str]
    holds: Callable[[Case], bool]


def noted(*codes: str) -> Callable[[Case], bool]:
    return lambda case: not case.codes.isdisjoint(codes)


ALL = frozenset({"reasoning", "content", "calls"})


def text_after_a_call(case: Case) -> bool:
    return any(s.kind in {"content", "malformed"} and s.start > case.first_call() for s in case.found.segments)


def thinks_late(case: Case) -> bool:
    """A think block after another one, or after anything that was said."""
    return any(
        place or bare(case.family.tokenizer.decode(case.ids[: block.outer_start]))
        for place, block in enumerate(case.found.reasoning)
    )


def call_in_call(case: Case) -> bool:
    calls = case.family.bound.format.calls
    begin = case.family.bound.ids.get(calls.begin) if calls else None
    cut = [note for note in case.found.notes if note.code == "tool_call_unclosed"]
    return any(note.end < len(case.ids) and case.ids[note.end] == begin for note in cut)


def later_section(case: Case) -> bool:
    calls = case.family.bound.format.calls
    begin = case.family.bound.ids.get(calls.section_begin or "") if calls else None
    controls = [s.start for s in case.found.segments if s.kind == "control"]
    return [case.ids[at] for at in controls].count(begin) > 1


REASONS: dict[str, Reason] = {
    "nested": Reason(
        "An open inside reasoning is text of it, as every id belongs somewhere; they leave it out.",
        frozenset({"reasoning"}),
        noted("nested_open"),
    ),
    "close": Reason(
        "The first close with nothing open makes what is before it reasoning: a prompt that opened the block may have been cut. "
        "They know the prompt in any case, and leave the tag in the content.",
        ALL,
        noted("close_without_open"),
    ),
    "blocks": Reason(
        "A think block after an answer or a call is reasoning too; they know one block, at the very beginning.",
        ALL,
        thinks_late,
    ),
    "after": Reason(
        "Text after a call is content; they end the content at the first call.",
        frozenset({"content"}),
        text_after_a_call,
    ),
    "begun": Reason(
        "A call that begins inside another ends it, so that there are two; they read on to the end marker and count one.",
        frozenset({"calls", "content"}),
        call_in_call,
    ),
    "sections": Reason(
        "Every section of calls is read; they read the first.", frozenset({"calls", "content"}), later_section
    ),
    "sectionless": Reason(
        "A call without its section's marker is a call, and noted; to them it is text.",
        ALL,
        noted("tool_section_unbalanced"),
    ),
    "drafted": Reason(
        "A call inside reasoning that closes later is a draft, and text of it; they take GLM's for a call.",
        ALL,
        lambda case: case.family.bound.name == "glm45" and "tool_call_in_reasoning" in case.codes,
    ),
    "extra": Reason(
        "A close that closes nothing is text of the answer; they leave GLM's out.",
        frozenset({"content"}),
        lambda case: case.family.bound.name == "glm45" and "extra_close" in case.codes,
    ),
    "stopped": Reason(
        "A call ends a harmony answer, as the server stops there; they read on.",
        ALL,
        lambda case: case.family.bound.name == "gpt_oss" and "after_stop" in case.codes,
    ),
    "malformed": Reason(
        "A message whose header cannot be read is malformed, and flagged; they take what they can from it.",
        ALL,
        noted("header_malformed"),
    ),
    "header": Reason(
        "A turn's beginning in the answer is in its ids, and so in its text; they take one for the prompt's.",
        frozenset({"reasoning", "content"}),
        lambda case: (
            case.ids[:1] in {(case.family.bound.ids.get(mark),) for mark in case.family.bound.format.turn_starts}
        ),
    ),
    "interrupted": Reason(
        "A call inside reasoning that never closes ends it, in every family; they leave DeepSeek's and Hunyuan's in the reasoning.",
        ALL,
        lambda case: (
            case.family.bound.name.startswith(("deepseek", "hunyuan")) and "tool_call_in_reasoning" in case.codes
        ),
    ),
}


@dataclass(frozen=True)
class Difference:
    """Where we differ, how, and the reasons that hold there."""

    case: Case
    fields: frozenset[str]
    theirs: Any
    reasons: frozenset[str]

    def explained(self, without: str = "") -> bool:
        return self.fields <= frozenset().union(*(REASONS[name].fields for name in self.reasons - {without}))


def differences(name: str, family: Family) -> list[Difference]:
    peer, theirs = PEERS[name], renderer(name, family)
    found = []
    for prompt in peer.prompts.values():
        prompt_ids = family.ids(prompt)
        for ids in answers(family, peer, theirs.get_stop_token_ids()):
            segmentation = family.bound.segment(prompt_ids, ids)
            case = Case(family, tuple(ids), segmentation, frozenset(note.code for note in segmentation.notes))
            parsed = theirs.parse_response([*family.ids(peer.lead), *ids], prompt_ids=prompt_ids, tools=TOOLS)
            fields = differing(case, parsed)
            if fields:
                reasons = frozenset(key for key, reason in REASONS.items() if reason.holds(case))
                found.append(Difference(case, frozenset(fields), parsed, reasons))
    return found


@pytest.fixture(scope="module")
def peers(families: dict[str, Family], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    """The families, Hunyuan's with its markers as tokens: theirs cannot do without."""
    declared = families["hunyuan"].bound.format
    folder = tmp_path_factory.mktemp("peers")
    make_vocabulary(folder / "hunyuan", replace(declared, spelled=()))
    tokenizer = TokenizerCache([folder], allow_remote_code=False).get("hunyuan")
    return families | {"hunyuan": Family(bind(declared, tokenizer), tokenizer, "")}


@pytest.fixture(scope="module")
def found(peers: dict[str, Family]) -> dict[str, list[Difference]]:
    return {name: differences(name, peers[name]) for name in DECLARED}


def test_every_difference_is_one_we_mean(found: dict[str, list[Difference]]) -> None:
    for name, all_found in found.items():
        unexplained = [item for item in all_found if not item.explained()]
        shown = [
            (case.family.tokenizer.decode(case.ids), sorted(item.fields), sorted(case.codes), item.theirs)
            for item in sorted(unexplained, key=lambda item: len(item.case.ids))[:3]
            for case in [item.case]
        ]
        assert not unexplained, f"{name}: {len(unexplained)} differences without a reason; the shortest: {shown}"


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_explains_what_no_other_does(found: dict[str, list[Difference]], reason: str) -> None:
    """One that is no longer needed is to be taken off the list."""
    assert any(not item.explained(without=reason) for all_found in found.values() for item in all_found)


@pytest.mark.parametrize("name", DECLARED)
def test_the_usual_answers_are_read_alike(peers: dict[str, Family], name: str) -> None:
    """Thought, answer and well-formed calls after them: no reason may be needed here."""
    family, peer = peers[name], PEERS[name]
    theirs = renderer(name, family)
    for state, prompt in peer.prompts.items():
        for text in usual(family, peer, state, theirs.get_stop_token_ids()):
            ids = family.ids(text)
            case = Case(family, tuple(ids), family.bound.segment(family.ids(prompt), ids), frozenset())
            parsed = theirs.parse_response([*family.ids(peer.lead), *ids], prompt_ids=family.ids(prompt), tools=TOOLS)
            assert not differing(case, parsed), (state, text)
