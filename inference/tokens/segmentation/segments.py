"""What segmentation says: ranges that tile the output ids, and notes about what was met on the way.

The seven rules of segmentation are carried out in `blocks.py`; this module only holds their words. All ranges are half-open, in
positions of the output ids.
"""

from operator import itemgetter
from typing import Literal, NamedTuple

from inference.tokens.segmentation.roles import Marks

SegmentKind = Literal["reasoning", "content", "tool_call", "control", "malformed"]
Ending = Literal["close", "tool_call", "stop", "end"]
KINDS: tuple[SegmentKind, ...] = ("reasoning", "content", "tool_call", "control", "malformed")
"""In the order of their bits: the first kind is bit 0."""


PromptState = Literal["unknown", "none", "open", "closed", "off"]
"""How the prompt leaves the think block of the turn to be written: `unknown` without prompt ids; `none`: it says nothing, the model
opens the block itself or does not think; `open`: the output begins inside reasoning; `closed`: reasoning is over, or was switched
off; `off`: as `none`, but a word in the conversation switched reasoning off."""


class Segment(NamedTuple):
    """Ids [start, end) and what they are; `channel` where the family names one (a harmony channel)."""

    kind: SegmentKind
    start: int
    end: int
    channel: str | None = None


class Note(NamedTuple):
    """Something about the delimiters at [start, end), by its flag code; `detail` picks among the sentences of one code."""

    code: str
    start: int
    end: int
    detail: str = ""


IN_PLACE = itemgetter(1, 2)
"""Sorts notes by where they begin and end"""


class Reasoning(NamedTuple):
    """One block of reasoning: its ids [start, end), the range with its delimiters, and what ended it."""

    start: int
    end: int
    outer_start: int
    outer_end: int
    ended_by: Ending


class Segmentation(NamedTuple):
    """The tiles in source order, the notes in source order, and what flags need to know besides."""

    segments: tuple[Segment, ...]
    notes: tuple[Note, ...]
    reasoning_tokens: int
    reasoning: tuple[Reasoning, ...] = ()
    prompt_state: PromptState = "unknown"
    stop: int | None = None
    """Position of the first stop id"""
    calls_empty: tuple[tuple[int, int], ...] = ()
    """Calls with nothing between their markers: the range of the markers (no segment can hold them)"""
    marks: Marks | tuple[()] = ()
    """Every id with a role: (position, role)"""
