"""The seven rules, carried out on ids: a think block, call markers, a stop.

One pass over the delimiters. Everything between two of them is one tile, so the tiles cover the output by construction: each
step appends the text since the last delimiter that acted, then the delimiter. A delimiter that does not act is left inside the
text around it.

Where the rules leave room, this is how they are read:
- "The first close with nothing open" is the first of the turn: after a prompt that closed the block, a close is an extra one.
- A first close makes *all* ids before it reasoning, calls among them: as if the prompt had opened the block.
- A think open inside a call is payload. A call begin inside a call, a section marker and the stop end an open call.
- Text in a section of calls but in no call is malformed: no grammar places it there.
- Where a family's calls have no end marker, the next call or the stop ends one; only the end of the ids leaves it unclosed.
- An answer that begins as a bare call (a call without its begin marker, in families that write such) is one call.
"""

from collections.abc import Callable

from inference.tokens.segmentation.roles import Role
from inference.tokens.segmentation.segments import (
    IN_PLACE,
    Ending,
    Note,
    Reasoning,
    Segment,
    Segmentation,
    SegmentKind,
)
from inference.tokens.segmentation.uncut import Uncut


def segment_blocks(uncut: Uncut) -> Segmentation:
    """Cuts by the rules."""
    return _Blocks(uncut).cut()


class _Blocks:
    """The state of one pass. `at` is where the text not yet placed begins: after the last delimiter that acted."""

    def __init__(self, uncut: Uncut) -> None:
        self.uncut = uncut
        self.tokenizer = uncut.tokenizer
        self.state = state = uncut.state
        self.ids = uncut.ids
        self.widths = uncut.widths
        self.events = [mark for mark in uncut.marks if mark[1] >= Role.STOP]
        self.stop = next((at for at, role in self.events if role == Role.STOP), None)
        limit = len(self.ids) if self.stop is None else self.stop
        self.last_close = max((at for at, role in self.events if role == Role.THINK_CLOSE and at < limit), default=-1)
        self.segments: list[Segment] = []
        self.notes: list[Note] = []
        self.blocks: list[Reasoning] = []
        self.calls_empty: list[tuple[int, int]] = []
        self.at = 0
        self.mode: SegmentKind = "reasoning" if state == "open" else "content"
        self.outer = 0  # where the open reasoning's delimiter stands
        self.closed = state == "closed"
        self.section: str | None = None  # "marked", or "implied" by a call outside any section
        self.section_at = 0
        self.section_holds = False  # anything, a call or stray text
        self.sections = uncut.sections
        self.call_at = 0
        self.call_noted = -1  # the reasoning, by its first id, for which a call as text is noted already

    def cut(self) -> Segmentation:
        n = len(self.ids)
        if self.uncut.bare_call and self.mode == "content":
            self.notes.append(Note("tool_call_bare", 0, 1))
            self.mode = "tool_call"
        for at, role in self.events:
            if role == Role.STOP:
                break
            _STEPS[role](self, at)
        end = n if self.stop is None else self.stop
        self.finish(end)
        if self.stop is not None:
            self.control(self.stop)
            if self.stop + 1 < n:
                self.segments.append(Segment("malformed", self.stop + 1, n))
                self.notes.append(Note("after_stop", self.stop + 1, n))
        for block in self.blocks[1:]:
            self.notes.append(Note("multiple_reasoning", block.outer_start, block.outer_end))
        return Segmentation(
            tuple(self.segments),
            tuple(sorted((*self.notes, *self.uncut.notes), key=IN_PLACE)),
            sum(segment.end - segment.start for segment in self.segments if segment.kind == "reasoning"),
            tuple(self.blocks),
            self.state,
            self.stop,
            tuple(self.calls_empty),
            self.uncut.marks,
        )

    # tiles

    def text(self, end: int) -> None:
        """Places the ids since the last acting delimiter, [at, end), by the mode they were met in."""
        start, self.at = self.at, end
        if start == end:
            return
        kind = self.mode
        if kind == "content" and (self.section == "marked" or (start > 0 and end < len(self.ids))):
            if self.tokenizer.is_blank(self.ids[start:end]):
                kind = "control"  # rule 1: whitespace between two delimiters
            elif self.section == "marked":
                kind = "malformed"
                self.section_holds = True
                self.notes.append(Note("tool_section_unbalanced", start, end, "stray"))
        self.segments.append(Segment(kind, start, end))

    def after(self, at: int) -> int:
        """Where the delimiter at `at` ends."""
        return at + self.widths.get(at, 1)

    def control(self, at: int) -> None:
        self.at = self.after(at)
        self.segments.append(Segment("control", at, self.at))

    def end_reasoning(self, start: int, end: int, outer_end: int, ended_by: Ending) -> None:
        self.blocks.append(Reasoning(start, end, self.outer, outer_end, ended_by))

    # think block

    def open(self, at: int) -> None:
        if self.mode == "reasoning":
            self.notes.append(Note("nested_open", at, self.after(at)))
        elif self.mode == "content":
            self.text(at)
            self.leave_section(at)
            self.control(at)
            self.mode, self.outer = "reasoning", at

    def close(self, at: int) -> None:
        if self.mode == "reasoning":
            self.end_reasoning(self.at, at, self.after(at), "close")
            self.text(at)
        elif self.closed:
            self.notes.append(Note("extra_close", at, self.after(at)))
            return
        else:
            self.turn_into_reasoning(at)
        self.control(at)
        self.mode, self.closed = "content", True

    def turn_into_reasoning(self, at: int) -> None:
        """Rule 3: the first close with nothing open. Happens once at most, since it is the first."""
        self.notes = [
            Note("tool_call_in_reasoning", place, self.after(place), "text")
            for place, role in self.events
            if place < at and role in {Role.CALL_BEGIN, Role.SECTION_BEGIN}
        ][:1]
        self.notes.append(Note("close_without_open", at, self.after(at)))
        self.segments, self.calls_empty, self.section = [], [], None
        self.at, self.outer, self.mode = 0, 0, "reasoning"
        self.end_reasoning(0, at, self.after(at), "close")
        self.text(at)

    # calls

    def enter_calls(self, at: int) -> bool:
        """Before a call or section begins: False where the marker is text of reasoning that closes later (rule 5)."""
        if self.mode == "reasoning":
            if at < self.last_close:
                if self.call_noted != self.at:
                    self.call_noted = self.at
                    self.notes.append(Note("tool_call_in_reasoning", at, self.after(at), "text"))
                return False
            self.notes.append(Note("tool_call_in_reasoning", at, self.after(at)))
            self.end_reasoning(self.at, at, at, "tool_call")
            self.text(at)
            self.mode = "content"
        elif self.mode == "tool_call":
            self.end_call(at, closed=not self.uncut.calls_end)
        else:
            self.text(at)
        return True

    def call_begin(self, at: int) -> None:
        if not self.enter_calls(at):
            return
        if self.sections and self.section is None:
            self.section, self.section_at = "implied", at
            self.notes.append(Note("tool_section_unbalanced", at, self.after(at), "begin"))
        self.control(at)
        self.mode, self.call_at, self.section_holds = "tool_call", at, True

    def call_end(self, at: int) -> None:
        if self.mode == "tool_call":
            self.end_call(at, closed=True, end=self.after(at))
            self.control(at)

    def end_call(self, at: int, *, closed: bool, end: int | None = None) -> None:
        """Ends the open call before `at`; `end` is where its end marker ends, if it has one."""
        if not closed:  # cites the marker where nothing follows it
            self.notes.append(Note("tool_call_unclosed", self.at if self.at < at else self.call_at, at))
        elif self.at == at:
            self.calls_empty.append((self.call_at, end or at))
        self.text(at)
        self.mode = "content"

    def section_begin(self, at: int) -> None:
        if not self.enter_calls(at):
            return
        self.leave_section(at)
        self.control(at)
        self.section, self.section_at, self.section_holds = "marked", at, False

    def section_end(self, at: int) -> None:
        if self.mode == "reasoning":
            return
        if self.mode == "tool_call":
            self.end_call(at, closed=False)
        elif self.section is None:
            self.notes.append(Note("tool_section_unbalanced", at, self.after(at), "end"))
            return
        else:
            self.text(at)
        self.control(at)
        if not self.section_holds:
            self.notes.append(Note("tool_section_unbalanced", self.section_at, self.at, "empty"))
        self.section = None

    def leave_section(self, at: int) -> None:
        """A section that something else than its end marker ends."""
        if self.section == "marked":
            self.notes.append(Note("tool_section_unbalanced", self.section_at, at, "open"))
        self.section = None

    # the end

    def finish(self, end: int) -> None:
        """The text before the stop, or before the end where there is none."""
        ended_by: Ending = "end" if self.stop is None else "stop"
        if self.mode == "reasoning":
            self.end_reasoning(self.at, end, end, ended_by)
            self.notes.append(Note("reasoning_unclosed", min(self.outer, end), end))
            self.text(end)
        elif self.mode == "tool_call":
            self.end_call(end, closed=self.stop is not None and not self.uncut.calls_end)
            self.section = None  # said already
        else:
            self.text(end)
        self.leave_section(end)


_STEPS: dict[int, Callable[[_Blocks, int], None]] = {
    Role.THINK_OPEN: _Blocks.open,
    Role.THINK_CLOSE: _Blocks.close,
    Role.SECTION_BEGIN: _Blocks.section_begin,
    Role.SECTION_END: _Blocks.section_end,
    Role.CALL_BEGIN: _Blocks.call_begin,
    Role.CALL_END: _Blocks.call_end,
}
