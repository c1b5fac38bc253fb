"""Our segments against PyPI `renderers`, the other reader that goes by ids: every difference is one we mean."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import all_formats, bind
from inference.tokens.segmentation.segments import Segmentation
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.toolcalls import read_calls
from tests.support.absent import missing
from tests.support.families import Family, make_vocabulary

OPEN, SHUT, NONE = "open", "closed", "none"
RANDOM_ANSWERS = 300
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}},
        },
    }
    for name in ("f", "g")
]
NO_SUCH_ID = 10_000_000


@dataclass(frozen=True)
class Peer:
    """Their renderer for one of our families, and how the prompt ends in each state of the think block."""

    config: str
    prompts: dict[str, str]
    calls: tuple[str, ...] = ()
    """Well-formed and broken calls, each with all of its markers"""
    usual: tuple[str, ...] = ()
    """Whole answers of the usual kind, where they are not thought, answer and calls"""
    lead: str = ""
    """What they want to see of the prompt at the beginning of an answer"""


def chatml(**prompts: str) -> dict[str, str]:
    turn = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    return {state: turn + ending for state, ending in prompts.items()}


def hermes(payload: str) -> str:
    return f"<tool_call>\n{payload}\n</tool_call>"


def xml(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def kimi(*calls: tuple[str, str]) -> str:
    inner = "".join(
        f"<|tool_call_begin|>{head}<|tool_call_argument_begin|>{body}<|tool_call_end|>" for head, body in calls
    )
    return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"


def deepseek(*calls: tuple[str, str]) -> str:
    inner = "".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{body}\n```<｜tool▁call▁end｜>"
        for name, body in calls
    )
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


HERMES = (
    hermes('{"name": "f", "arguments": {"x": 1, "y": "é\\n", "z": [1.50, null, true]}}'),
    hermes('{"name": "f", "arguments": {}}'),
    hermes('{"name": "f", "arguments": {"p": "C:\\path"}}'),
    hermes('{"name": "f", "arguments": {"x": 1}'),
    hermes('{"arguments": {"x": 1}}'),
    hermes(""),
)
FUNCTION_XML = (
    xml("<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=y>\na < b\n</parameter>\n</function>"),
    xml("<function=f>\n</function>"),
    xml("<parameter=x>\n1\n</parameter>"),
    xml(""),
)
GLM = (
    "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "<tool_call>g<arg_key>y</arg_key><arg_value>a b</arg_value></tool_call>",
    "<tool_call>f\n<arg_key>x</arg_key>\n</tool_call>",
    "<tool_call>f</tool_call>",
    "<tool_call></tool_call>",
)
HARMONY = (
    "<|channel|>analysis<|message|>plan<|end|>",
    "<|start|>assistant<|channel|>final<|message|>Answer<|return|>",
    '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>',
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1<|call|>',
    "<|start|>assistant to=functions.g<|channel|>commentary<|message|>{}<|call|>",
    "<|start|>assistant<|channel|>commentary<|message|>So:<|end|>",
    "<|start|>assistant<|channel|>final<|message|>cut",
)
USUAL_HARMONY = (
    HARMONY[0] + HARMONY[1],
    HARMONY[0] + HARMONY[2],
    HARMONY[0] + HARMONY[4],
    HARMONY[0] + HARMONY[5] + HARMONY[2],
    HARMONY[0] + HARMONY[5] + HARMONY[1],
    HARMONY[0] + HARMONY[6],
    HARMONY[1].removeprefix("<|start|>assistant"),
)
INVOKES = (
    '<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>\n</minimax:tool_call>',
    '<minimax:tool_call><invoke name="f"></invoke><invoke name="g"><parameter name="y">a</parameter></invoke></minimax:tool_call>',
    "<minimax:tool_call>\n</minimax:tool_call>",
)

PEERS: dict[str, Peer] = {
    "qwen3": Peer("qwen3", chatml(none="", open="<think>\n", closed="<think>\n\n</think>\n\n"), HERMES),
    "qwen3_coder": Peer("qwen3.5", chatml(none=""), FUNCTION_XML),
    "qwen35": Peer("qwen3.5", chatml(none="", open="<think>\n", closed="<think>\n\n</think>\n\n"), FUNCTION_XML),
    "nemotron": Peer("nemotron-3", chatml(open="<think>\n", closed="<think></think>"), FUNCTION_XML),
    "kimi_k2": Peer(
        "kimi-k2",
        {
            state: "<|im_user|>user<|im_middle|>hi<|im_end|><|im_assistant|>assistant<|im_middle|>" + ending
            for state, ending in ((NONE, ""), (OPEN, "<think>"), (SHUT, "<think></think>"))
        },
        (
            kimi(("functions.f:0", '{"x": 1}')),
            kimi(("functions.f:0", "{}"), ("functions.g:1", '{"y": "a"}')),
            kimi(("functions.f:0", '{"x": 1')),
            kimi(("", "{}")),
            kimi(),
        ),
    ),
    "deepseek_r1": Peer(
        "deepseek-r1",
        {
            state: "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>" + ending
            for state, ending in ((NONE, ""), (OPEN, "<think>\n"), (SHUT, "<think></think>"))
        },
        (
            deepseek(("f", '{"x": 1}')),
            deepseek(("f", "{}"), ("g", '{"y": "a"}')),
            deepseek(("f", '{"x": 1')),
            deepseek(),
        ),
    ),
    "deepseek_v3": Peer(
        "deepseek-v3",
        {NONE: "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>"},
        (deepseek(("f", '{"x": 1}')), deepseek(("f", "{}"), ("g", '{"y": "a"}')), deepseek(("f", '{"x": 1'))),
    ),
    "glm45": Peer("glm-4.5", {OPEN: "[gMASK]<sop><|user|>\nhi<|assistant|>\n<think>"}, GLM),
    "hunyuan": Peer(
        "hy3",
        {OPEN: "<｜hy_User｜>hi<｜hy_Assistant｜><think>", NONE: "<｜hy_User｜>hi<｜hy_Assistant｜>"},
        (
            "<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n</tool_calls>",
            "<tool_calls><tool_call>f<tool_sep></tool_call></tool_calls>",
            "<tool_calls><tool_call>f<tool_sep><arg_key>x</arg_key></tool_call><tool_call>g<tool_sep></tool_call></tool_calls>",
            "<tool_calls><tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call></tool_calls>",
        ),
    ),
    "gpt_oss": Peer(
        "gpt-oss",
        {NONE: "<|start|>user<|message|>hi<|end|><|start|>assistant"},
        HARMONY,
        USUAL_HARMONY,
        "<|start|>assistant",
    ),
    "minimax_m2": Peer(
        "minimax-m2",
        {OPEN: "]~b]user\nhi[e~[\n]~b]ai\n<think>\n", NONE: "]~b]user\nhi[e~[\n]~b]ai\n"},
        INVOKES,
    ),
}


DECLARED = [name for name in sorted(PEERS) if name in {item.name for item in all_formats()}]


class Words:
    """Our tokenizer as theirs takes one; a token that the made-up vocabulary lacks gets an id that no answer holds."""

    unk_token_id = None
    eos_token_id = None
    name_or_path = "made-up"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.lacking: dict[str, int] = {}

    def encode(self, text: str, **_: Any) -> list[int]:
        missing = re.fullmatch(r"<｜[^｜]+｜>", text) and self.tokenizer.id_of(text) is None
        return [self.convert_tokens_to_ids(text) or 0] if missing else self.tokenizer.encode(text)

    def decode(self, ids: list[int], **_: Any) -> str:
        return self.tokenizer.decode(ids)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        found = self.tokenizer.id_of(token.replace(":opensource", ""))  # Hy3's vocabulary has a suffix in each
        if found is None and not token.endswith("think>"):
            found = self.lacking.setdefault(token, NO_SUCH_ID + len(self.lacking))
        return found


class HarmonyReader:
    """Their reader of harmony without their renderer, which fetches a vocabulary from the network when it is made."""

    def __init__(self, words: Words) -> None:
        self.words = words
        names = ("return", "call", "start", "end", "channel", "message", "constrain")
        self.ids = {f"{name}_id": words.tokenizer.id_of(f"<|{name}|>") for name in names}

    def get_stop_token_ids(self) -> list[Any]:
        return [self.ids["return_id"]]

    def parse_response(self, ids: list[int], **_: Any) -> Any:
        from renderers.parsing import parse_gpt_oss

        return parse_gpt_oss(self.words, ids, **self.ids)


@dataclass(frozen=True)
class Case:
    """One answer and what was met in it."""

    family: Family
    ids: tuple[int, ...]
    found: Segmentation
    codes: frozenset[str]

    def texts(self, kind: str) -> str:
        parts = [self.family.tokenizer.decode(self.ids[s.start : s.end]) for s in self.found.segments if s.kind == kind]
        return bare("".join(parts))

    def calls(self) -> list[tuple[str | None, Any]]:
        """Name and arguments of each call, as far as they can be read; a call that is not closed counts as broken, as there."""
        cut = [note for note in self.found.notes if note.code == "tool_call_unclosed"]
        read: list[tuple[int, list[tuple[str | None, Any]]]] = [
            (start, [BROKEN]) for start, _ in self.found.calls_empty
        ]
        read += [(note.start, [BROKEN]) for note in cut]
        for kind, start, end, *_ in self.found.segments:
            if kind == "tool_call" and not any(note.start < end and start < note.end for note in cut):
                calls = read_calls(self.family.bound, self.family.tokenizer, self.ids[start:end], TOOLS)
                read.append((start, [(call.name, call.value) if call.valid else BROKEN for call in calls]))
        return [call for _, calls in sorted(read, key=lambda item: item[0]) for call in calls]

    def first_call(self) -> int:
        """Where the first call or section begins, past the end where there is none."""
        calls = self.family.bound.format.calls
        begins = (
            {self.family.bound.ids.get(mark or "") for mark in (calls.begin, calls.section_begin)} if calls else set()
        )
        controls = [s.start for s in self.found.segments if s.kind == "control"]
        return next((at for at in controls if self.ids[at] in begins), len(self.ids))

    def kinds(self) -> list[str]:
        return [segment.kind for segment in self.found.segments]


BROKEN = (None, None)


def bare(text: str) -> str:
    """Without whitespace: they trim it in many places, and none of ours is lost."""
    return "".join(text.split())


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


@cache
def renderer(name: str, family: Family) -> Any:
    try:
        from renderers import base, configs
    except ImportError:
        missing("the package renderers is not installed")
    peer = PEERS[name]
    words = Words(family.tokenizer)
    if name == "gpt_oss":
        return HarmonyReader(words)
    made = next(
        kind
        for kind in vars(configs).values()
        if isinstance(kind, type)
        and getattr(kind, "model_fields", {}).get("name") is not None
        and kind.model_fields["name"].default == peer.config
    )
    return base.create_renderer(words, made())


def answers(family: Family, peer: Peer, their_stops: list[int]) -> Iterator[list[int]]:
    think = family.bound.format.think
    opens, closes = (think.open, think.close) if think else ("", "")
    stop = family.tokenizer.token_text(next(number for number in their_stops if number in family.bound.stop_ids))
    for text in (
        "", "plan", f"plan{closes}Answer{stop}", f"{opens}plan{closes}Answer{stop}", f"{opens}plan{stop}", f"{opens}plan",
        f"{opens}{closes}Answer", f"{opens}\n\n{closes}\n\nAnswer{stop}", f"{opens}a{closes}x{opens}b{closes}y",
        f"{opens}a{opens}b{closes}c{closes}d", f"Hi {opens}plan{closes}Answer", f"{opens}plan{closes}Answer{stop}more",
        *(f"{opens}plan{closes}{before}{call}{after}" for call in peer.calls for before in ("", "ok") for after in ("", "\n", stop)),
        *(f"{opens}plan{call}{after}" for call in peer.calls for after in ("", stop)),
    ):  # fmt: skip
        yield family.ids(text)
    dice = random.Random(peer.config)
    stops = {family.tokenizer.token_text(number) for number in family.bound.stop_ids}  # they know fewer: one is enough
    marks = [mark for mark in family.bound.format.markers() if mark in family.bound.ids and mark not in stops]
    pools = [("plan", " ok", "\n", "é🙂", "<", "{}", "</thi"), marks, peer.calls or marks, (opens, closes, stop)]
    for _ in range(RANDOM_ANSWERS):
        yield [number for _ in range(dice.randint(0, 7)) for number in family.ids(dice.choice(dice.choice(pools)))]


def usual(family: Family, peer: Peer, state: str, their_stops: list[int]) -> Iterator[str]:
    if peer.usual:
        yield from peer.usual
        return
    think = family.bound.format.think
    opens = think.open if think and state == NONE else ""
    thought = f"{opens}plan{think.close}" if think and state != SHUT else ""
    stop = family.tokenizer.token_text(next(number for number in their_stops if number in family.bound.stop_ids))
    for said in ("Answer", "", *peer.calls, *("Answer" + call for call in peer.calls)):
        yield thought + said + stop


def differing(case: Case, theirs: Any) -> set[str]:
    fields = set()
    if case.texts("reasoning") != bare(theirs.reasoning_content or ""):
        fields.add("reasoning")
    if case.texts("content") != bare(theirs.content):
        fields.add("content")
    read = [(c.name, c.arguments) if c.status.value == "ok" else BROKEN for c in theirs.tool_calls]
    if plain(case.calls()) != plain(read):
        fields.add("calls")
    return fields


def plain(value: Any) -> Any:
    """Numbers, which we keep as text, and other values alike by what they print as."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


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


@pytest.mark.slow
def test_every_difference_is_one_we_mean(found: dict[str, list[Difference]]) -> None:
    for name, all_found in found.items():
        unexplained = [item for item in all_found if not item.explained()]
        shown = [
            (case.family.tokenizer.decode(case.ids), sorted(item.fields), sorted(case.codes), item.theirs)
            for item in sorted(unexplained, key=lambda item: len(item.case.ids))[:3]
            for case in [item.case]
        ]
        assert not unexplained, f"{name}: {len(unexplained)} differences without a reason; the shortest: {shown}"


@pytest.mark.slow
@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_explains_what_no_other_does(found: dict[str, list[Difference]], reason: str) -> None:
    """One that is no longer needed is to be taken off the list."""
    assert any(not item.explained(without=reason) for all_found in found.values() for item in all_found)


@pytest.mark.slow
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
