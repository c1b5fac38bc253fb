"""What a model family is, as one small declaration; `formats/` holds one file per family.

To add a family: a file in `formats/` with a `FORMAT`, its markers by token text. A payload reader is needed only where the
calls are written in a grammar no other family uses, a segmenter only where the family does not work by a think block and
call markers at all. The tests run through every declared family.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from inference.tokens.payloads.payload import Payload, ToolCall

if TYPE_CHECKING:
    from inference.tokens.binding import BoundFormat
    from inference.tokens.ids import Ids
    from inference.tokens.segmentation.segments import PromptState, Segmentation

PayloadReader = Callable[[Payload], tuple[ToolCall, ...]]
Segmenter = Callable[["BoundFormat", "PromptState", "Ids", frozenset[int]], "Segmentation"]
Expectation = Literal["always", "by_template", "by_prompt", "never"]


@dataclass(frozen=True)
class Think:
    """The delimiters of reasoning. `required=False`: the family has members that do not think, without these tokens."""

    open: str
    close: str
    required: bool = True


@dataclass(frozen=True)
class Calls:
    """The markers of tool calls: around each call, around all of them, and between a call's header and its arguments."""

    begin: str
    end: str
    section_begin: str | None = None
    section_end: str | None = None
    separator: str | None = None
    required: bool = False


@dataclass(frozen=True)
class TokenFormat:
    """A family's declaration. Every marker is the text of one token; what must resolve is checked when it is bound.

    `expects` says when reasoning is due: `always`; `by_template`: where the chat template knows the think block and the prompt
    did not close it; `by_prompt`: only where the prompt opened it; `never`.
    """

    name: str
    title: str
    """The models it is for, in words"""
    think: Think | None = None
    calls: Calls | None = None
    payload: PayloadReader | None = None
    """Reads one call's payload; None where the family has no calls"""
    turn_starts: tuple[str, ...] = ()
    """Tokens that begin a turn or name its speaker; the think block's state is looked for after the last in the prompt"""
    never_in_answer: tuple[str, ...] = ()
    """Further tokens that no answer should hold, where the tokenizer does not flag them as special"""
    stops: tuple[str, ...] = ()
    """Tokens that end an answer, besides the tokenizer's own"""
    expects: Expectation = "never"
    arguments_as: Literal["mapping", "string", "by_template"] = "mapping"
    """What the chat template wants as a tool call's arguments; by_template: a string where it joins them to text with +"""
    null_content: Literal["", "null", "by_template"] = ""
    """What the chat template wants as the content of a call without text; by_template: null where it asks for `is none`"""
    tools_argument: str | None = None
    """The template's argument that takes the tools as the checkpoint's own tokenizer code writes them; the template writes them
    in a way of its own where that code does not run"""
    signature: tuple[str, ...] = ()
    """Tokens that tell the family; the format with the longest signature found is suggested"""
    segmenter: Segmenter | None = None
    """How ids are cut, where that is not by think block and call markers"""

    def markers(self) -> tuple[str, ...]:
        """Every marker's text, for people and for the list of formats."""
        think = (self.think.open, self.think.close) if self.think else ()
        calls = self.calls
        parts = (calls.section_begin, calls.begin, calls.separator, calls.end, calls.section_end) if calls else ()
        return (*think, *(part for part in parts if part), *self.turn_starts, *self.stops)
