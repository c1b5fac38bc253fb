"""The rules for answers that are a row of messages, each with a header (gpt-oss's harmony).

The delimiters are those of the OpenAI Harmony response format: `<|start|>role<|channel|>channel<|message|>body<|end|>`, with
`<|return|>` or `<|call|>` in the place of the last `<|end|>`; a recipient (`to=…`) stands in the channel part or in the role part.
Where the seven rules leave room, this is how they are read:
- The prompt ends within a header, or within a body; the output goes on from there.
- The names in a header are control, as the delimiters around them are. The body of `analysis` is reasoning; that of `final`, and
  of `commentary` without a recipient, is content. With a recipient the message is a call, in whatever channel: one segment from
  the begin of the part that names the recipient (after `<|channel|>`, or after `<|start|>`) to the end of the body.
- A header that cannot be read (two channels, an unknown channel, no body, no `<|start|>` before it) makes its whole message
  malformed, up to the next `<|start|>` or stop; so does a message of another role. Where only the channel is missing, the message
  is content, and noted.
- Several messages of analysis are how this family thinks between its calls: no flag. Channel and body tokens inside a body are
  text of it. A `<|start|>` ends a body whose `<|end|>` is missing, and that is noted.
"""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from inference.tokens.ids import Ids
from inference.tokens.segmentation.roles import Marks, Role
from inference.tokens.segmentation.segments import (
    IN_PLACE,
    Ending,
    Note,
    PromptState,
    Reasoning,
    Segment,
    Segmentation,
    SegmentKind,
)
from inference.tokens.segmentation.uncut import Uncut

_KINDS: dict[str, SegmentKind] = {"analysis": "reasoning", "commentary": "content", "final": "content"}
_CHANNEL = re.compile(r"\s*(?P<channel>[A-Za-z_]+)?(?=\s|<|\Z)(?P<rest>.*)", re.DOTALL)
_ROLE = re.compile(r"\s*(?P<role>[A-Za-z_]+)?(?=\s|<|\Z)(?P<rest>.*)", re.DOTALL)
_RECIPIENT = re.compile(r"\sto=\S")
_LONGEST_HEADER = 200  # ids; a part of a header that is longer names nothing


class _Header(NamedTuple):
    """What a header says; `call_from` is where the part begins that names a recipient."""

    kind: SegmentKind
    channel: str | None
    call_from: int | None = None


def segment_messages(uncut: Uncut) -> Segmentation:
    """Cuts by the rules above."""
    return _Messages(uncut).cut()


class _Messages:
    """One pass over the prompt's last message and the output; only what lies in the output is kept.

    All positions count from the prompt's last `<|start|>`; the output begins at `first`.
    """

    def __init__(self, uncut: Uncut) -> None:
        self.uncut = uncut
        self.tokenizer = uncut.tokenizer
        tail, marks = _last_message(uncut.prompt_end, uncut.prompt_marks)
        self.first = len(tail)
        self.ids: Ids = np.concatenate([tail, uncut.ids]) if len(tail) else uncut.ids
        self.prompt_events = marks
        self.events = [(at + self.first, role) for at, role in uncut.marks if role >= Role.STOP]
        self.segments: list[Segment] = []
        self.notes: list[Note] = []
        self.blocks: list[Reasoning] = []
        self.began = 0  # where the message begins, its start token included
        self.part = 0  # where the header's present part begins: after the start or channel token
        self.role_part: tuple[int, int] | None = None  # once the channel is met
        self.state: Literal["header", "body", "between", "bad"] = "header"
        self.header = _Header("content", None)
        self.body = 0
        self.last: tuple[str, int] | None = None  # what the last message was, and where it begins
        self.stop: int | None = None

    def cut(self) -> Segmentation:
        steps: dict[int, Callable[[int], None]] = {
            Role.MESSAGE_START: self.start,
            Role.CHANNEL: self.channel,
            Role.MESSAGE_BODY: self.begin_body,
            Role.MESSAGE_END: self.end,
        }
        for at, role in self.prompt_events:
            if role in steps:
                steps[role](at)
        state = self.uncut.state if self.uncut.state == "unknown" else self.opened()
        for at, role in self.events:
            if role == Role.STOP:
                self.stop = at
                break
            if role in steps:
                steps[role](at)
        n = len(self.ids)
        self.finish(n if self.stop is None else self.stop)
        if self.stop is not None:
            self.put("control", self.stop, self.stop + 1)
            if self.stop + 1 < n:
                self.put("malformed", self.stop + 1, n)
                self.note("after_stop", self.stop + 1, n)
        return Segmentation(
            tuple(self.segments),
            tuple(sorted(self.notes, key=IN_PLACE)),
            sum(segment.end - segment.start for segment in self.segments if segment.kind == "reasoning"),
            tuple(self.blocks),
            state,
            None if self.stop is None else self.stop - self.first,
            (),
            self.uncut.marks,
        )

    def opened(self) -> PromptState:
        """How the prompt leaves the turn: within a body of reasoning, within another, or before one."""
        if self.state != "body":
            return "none"
        return "open" if self.header.kind == "reasoning" else "closed"

    # what is kept

    @property
    def placed(self) -> int:
        """Where the ids begin that are in no segment yet."""
        return self.first + (self.segments[-1].end if self.segments else 0)

    def put(self, kind: SegmentKind, start: int, end: int, channel: str | None = None) -> None:
        """A segment, as far as it lies in the output."""
        start, end = max(start - self.first, 0), end - self.first
        if end > start:
            self.segments.append(Segment(kind, start, end, channel))

    def note(self, code: str, start: int, end: int, detail: str = "") -> None:
        start, end = start - self.first, end - self.first
        if end > 0:
            self.notes.append(Note(code, max(start, 0), end, detail))

    # delimiters

    def start(self, at: int) -> None:
        if self.state == "body":
            self.end_body(at, "close")
            self.note("header_malformed", at, at + 1, "unended")
        elif self.state == "between":
            self.between(at)
        elif at > self.placed or self.state == "bad":
            self.malformed(at)
        self.put("control", at, at + 1)
        self.state, self.began, self.part, self.role_part = "header", at, at + 1, None

    def channel(self, at: int) -> None:
        if self.state == "header" and self.role_part is None:
            self.role_part = (self.part, at)
            self.part = at + 1
        elif self.state != "body":
            self.state = "bad"

    def begin_body(self, at: int) -> None:
        if self.state == "header":
            found = self.read_header(at)
            if found is None:
                self.state = "bad"
            else:
                self.header, self.body, self.state = found, at + 1, "body"
                self.put_header(at)
        elif self.state == "between":
            self.state = "bad"

    def end(self, at: int) -> None:
        if self.state == "body":
            self.end_body(at, "close")
            self.put("control", at, at + 1)
            self.state, self.began = "between", at + 1
        elif self.state in {"header", "between"}:
            self.state = "bad"

    # headers

    def read_header(self, at: int) -> _Header | None:
        """What the header before the body token at `at` says; None where it cannot be read."""
        if self.role_part is None:
            role_text, channel_text, channel_from = self.text(self.part, at), None, at
        else:
            role_text, channel_text = self.text(*self.role_part), self.text(self.part, at)
            channel_from = self.part
        role = _ROLE.fullmatch(role_text)
        implied = self.began < self.first or (self.began == 0 and self.first == 0)
        if role is None or (role["role"] is None and not implied):
            return None
        if role["role"] not in {None, "assistant"}:
            self.note("role_marker_in_output", self.began, at)
            return None
        to_role = _RECIPIENT.search(f" {role['rest']}") is not None
        if channel_text is None:
            self.note("header_malformed", at, at + 1, "channel")
            return _Header("tool_call" if to_role else "content", None, self.role_from() if to_role else None)
        channel = _CHANNEL.fullmatch(channel_text)
        if channel is None or channel["channel"] not in _KINDS:
            return None
        name = channel["channel"]
        if to_role or _RECIPIENT.search(f" {channel['rest']}"):
            return _Header("tool_call", name, self.role_from() if to_role else channel_from)
        return _Header(_KINDS[name], name)

    def role_from(self) -> int:
        return self.part if self.role_part is None else self.role_part[0]

    def text(self, start: int, end: int) -> str:
        return self.tokenizer.decode(self.ids[start : min(end, start + _LONGEST_HEADER)])

    def put_header(self, at: int) -> None:
        """The segments of a header that was read: names and delimiters, up to where a call begins."""
        limit = at + 1 if self.header.call_from is None else self.header.call_from
        channel = self.header.channel
        bounds = [self.part, at] if self.role_part is None else [*self.role_part, self.role_part[1] + 1, at]
        for start, end in zip(bounds, [*bounds[1:], at + 1], strict=True):
            if start < limit:
                self.put("control", start, min(end, limit), channel if start >= self.part else None)

    # messages

    def end_body(self, at: int, ended_by: Ending) -> None:
        kind, channel, call_from = self.header
        if call_from is not None:
            self.put("tool_call", call_from, at, channel)
            if ended_by == "end":
                self.note("tool_call_unclosed", call_from, at)
        else:
            self.put(kind, self.body, at, channel)
        if kind == "reasoning" and at >= self.first:
            body, outer = max(self.body - self.first, 0), max(self.began - self.first, 0)
            closed = at + 1 if ended_by == "close" else at
            self.blocks.append(Reasoning(body, at - self.first, outer, closed - self.first, ended_by))
            if ended_by == "end":
                self.note("reasoning_unclosed", self.began, at)
        self.last = ("call" if call_from is not None else channel or "final", self.began)

    def between(self, at: int) -> None:
        """The ids between a message's end and the next one's start, or the answer's end."""
        if at > self.began:
            blank = self.tokenizer.is_blank(self.ids[self.began : at])
            if not blank:
                self.note("header_malformed", self.began, at)
            self.put("control" if blank else "malformed", self.began, at)

    def malformed(self, at: int) -> None:
        """What is not placed yet of a message, or of a header without body, that cannot be read."""
        self.note("header_malformed", min(self.placed, at - 1), at)
        self.put("malformed", self.placed, at)
        self.last = ("malformed", self.began)

    def finish(self, end: int) -> None:
        """The message that the answer ends in."""
        if self.state == "body":
            self.end_body(end, "end" if self.stop is None else "stop")
        elif self.state == "between":
            self.between(end)
        elif end > self.placed or self.state == "bad":
            self.malformed(end)
        if self.last is not None and self.last[0] not in {"final", "call"}:
            self.note("final_missing", self.last[1], end)


def _last_message(prompt_end: Ids, marks: Marks) -> tuple[Ids, Marks]:
    """The prompt from its last message's start on, with the marks there."""
    begin = max((at for at, role in marks if role == Role.MESSAGE_START), default=None)
    if begin is None:
        return prompt_end[:0], []
    return prompt_end[begin:], [(at - begin, role) for at, role in marks if at >= begin and role > Role.STOP]
