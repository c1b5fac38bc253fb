"""What a segmenter is given: the ids, where the delimiters among them stand, and how the prompt ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from inference.tokens.ids import Ids
from inference.tokens.segmentation.roles import Marks
from inference.tokens.segmentation.segments import Note, PromptState, Segmentation
from inference.tokens.tokenizer import Tokenizer


# not frozen: that would double what making one costs, and one is made for every answer
@dataclass(slots=True, eq=False)
class Uncut:
    """One answer before it is cut.

    `marks` are the output's ids with a role; `widths` has the number of ids of those delimiters that are several ids long.
    `prompt_end` is the prompt's end with its own marks, from the last turn start on (empty where the prompt is unknown).
    """

    tokenizer: Tokenizer
    ids: Ids
    marks: Marks
    state: PromptState
    prompt_end: Ids
    prompt_marks: Marks
    sections: bool = False
    """Whether the family puts its calls into sections"""
    calls_end: bool = True
    """Whether a call has an end marker; else the next call or the stop ends it"""
    bare_call: bool = False
    """Whether the answer begins as a call does that has no begin marker"""
    widths: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    """What was noted about the delimiters themselves"""


Segmenter = Callable[[Uncut], Segmentation]
"""Cuts; never raises, whatever the ids"""
