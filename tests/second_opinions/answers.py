"""Answers of a family, the usual ones and any order of its markers, and how two readings of one compare."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from inference.tokens.segmentation.segments import Segmentation
from inference.tokens.toolcalls import read_calls
from tests.second_opinions.peers import NONE, SHUT, Peer
from tests.support.families import Family

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
BROKEN = (None, None)


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


def bare(text: str) -> str:
    """Without whitespace: they trim it in many places, and none of ours is lost."""
    return "".join(text.split())


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
