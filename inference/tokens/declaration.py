"""What a model family is, as one small declaration; `formats/` holds one file per family.

To add a family: a file in `formats/` with a `FORMAT`, its markers by token text. A payload reader is needed only where the
calls are written in a grammar no other family uses, a segmenter only where the family does not work by a think block and
call markers at all. The tests run through every declared family. docs/token-formats.md walks through an example.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from inference.tokens.payloads.payload import Payload, ToolCall
from inference.tokens.segmentation.blocks import segment_blocks
from inference.tokens.segmentation.roles import Role
from inference.tokens.segmentation.uncut import Segmenter

PayloadReader = Callable[[Payload], tuple[ToolCall, ...]]
Expectation = Literal["always", "by_template", "by_prompt", "never"]


@dataclass(frozen=True)
class Think:
    """The delimiters of reasoning. `required=False`: the family has members that do not think, without these tokens."""

    open: str
    close: str
    required: bool = True


@dataclass(frozen=True)
class Calls:
    """The markers of tool calls: around each call, around all of them, and between a call's header and its arguments.

    Without an `end` the next call or the stop ends a call. `inner` are the tokens that order a payload (the tags around an
    argument's name and value). `bare` is the pattern of text an answer begins with that is a call without a begin marker.
    """

    begin: str
    end: str | None = None
    section_begin: str | None = None
    section_end: str | None = None
    separator: str | None = None
    inner: tuple[str, ...] = ()
    bare: str | None = None
    required: bool = False


@dataclass(frozen=True)
class Messages:
    """The delimiters of an answer that is a row of messages, each with a header: start, channel, body, end."""

    start: str
    channel: str
    body: str
    end: str
    constrain: str


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
    messages: Messages | None = None
    payload: PayloadReader | None = None
    """Reads one call's payload; None where the family has no calls"""
    turn_starts: tuple[str, ...] = ()
    """Tokens that begin a turn or name its speaker; the think block's state is looked for after the last in the prompt"""
    never_in_answer: tuple[str, ...] = ()
    """Further tokens that no answer should hold, where the tokenizer does not flag them as special"""
    stops: tuple[str, ...] = ()
    """Tokens that end an answer, besides the tokenizer's own"""
    expects: Expectation = "never"
    switch_words: tuple[str, str] | None = None
    """Words in the conversation that switch reasoning off and on, the last one holds; where the prompt says nothing else"""
    spelled: tuple[str, ...] = ()
    """Delimiters that some of the family's vocabularies have no token for; there, ordinary ids that spell them act"""
    suffixed: bool = False
    """Whether a marker's token may carry a suffix, `<think:name>` for `<think>`"""
    arguments_as: Literal["mapping", "string", "by_template"] = "mapping"
    """How a tool call's arguments go to a chat template that takes them as mapping and as string; what a template takes is tried"""
    null_content: Literal["", "null", "by_template"] = ""
    """What goes to a chat template that takes either as the content of a call without text; by_template: "" """
    tools_argument: str | None = None
    """The template's argument that takes the tools as the checkpoint's own tokenizer code writes them; the template writes them
    in a way of its own where that code does not run"""
    signature: tuple[str, ...] = ()
    """Tokens that tell the family; the format with the most signs found is suggested"""
    template_signs: tuple[str, ...] = ()
    """Texts in the chat template that tell the family from others with the same tokens"""
    model_types: tuple[str, ...] = ()
    """`model_type` in the model's config.json, where it tells the family"""
    reasoning_parsers: tuple[str, ...] = ()
    """SGLang's reasoning parsers that are used with these models; what they would have said can be shown"""
    segmenter: Segmenter = segment_blocks
    """How ids are cut"""

    def delimiters(self) -> Iterator[tuple[str, int]]:
        """(text, role) of every marker with a role in cutting."""
        if self.think:
            yield from ((self.think.open, Role.THINK_OPEN), (self.think.close, Role.THINK_CLOSE))
        if self.calls:
            calls = self.calls
            yield from _those_there(
                (calls.section_begin, Role.SECTION_BEGIN),
                (calls.begin, Role.CALL_BEGIN),
                (calls.separator, Role.SEPARATOR),
                *((text, Role.INNER) for text in calls.inner),
                (calls.end, Role.CALL_END),
                (calls.section_end, Role.SECTION_END),
            )
        if self.messages:
            parts = self.messages
            yield from (
                (parts.start, Role.MESSAGE_START),
                (parts.channel, Role.CHANNEL),
                (parts.constrain, Role.INNER),
                (parts.body, Role.MESSAGE_BODY),
                (parts.end, Role.MESSAGE_END),
            )
        yield from ((text, Role.SPEAKER) for text in self.turn_starts)
        yield from ((text, Role.STOP) for text in self.stops)

    def markers(self) -> tuple[str, ...]:
        """Every marker's text, for people and for the list of formats."""
        return tuple(dict.fromkeys(text for text, _ in self.delimiters()))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Markers of which one is of no use without the other."""
        if self.think:
            yield self.think.open, self.think.close
        if self.calls and self.calls.end:
            yield self.calls.begin, self.calls.end
        if self.calls and self.calls.section_begin and self.calls.section_end:
            yield self.calls.section_begin, self.calls.section_end

    def required(self) -> set[str]:
        """Markers without which the format makes no sense."""
        found = set(self.signature)
        if self.think and self.think.required:
            found |= {self.think.open, self.think.close}
        if self.calls and self.calls.required:
            found |= {text for text in (self.calls.begin, self.calls.end, self.calls.separator) if text}
        if self.messages:
            found |= {self.messages.start, self.messages.channel, self.messages.body, self.messages.end}
        return found


def _those_there(*named: tuple[str | None, int]) -> Iterator[tuple[str, int]]:
    return ((text, role) for text, role in named if text)
