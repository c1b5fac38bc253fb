"""What goes into a payload reader and what comes out of it."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from inference.tokens.payloads.jsontext import JsonValue

Mark = tuple[int, int, str]
"""A token that orders a payload: its code points [start, end) in the payload's text, and its text"""


@dataclass(frozen=True)
class Payload:
    """The text of one call, between its markers.

    `parts` is the text before and after the family's separator token, where it has one and it occurs (split at the first);
    `offset` is where the last part begins in `text`. `tools` are the names the prompt offered, empty where it offered none
    or they are unknown. `marks` are the family's inner delimiters by their ids, in order: only these act, the same text
    spelled with ordinary ids is text of a value. None where this vocabulary has no single ids for them: then the text decides.
    """

    text: str
    parts: tuple[str, ...]
    offset: int
    tools: AbstractSet[str] = frozenset()
    marks: tuple[Mark, ...] | None = None


@dataclass(frozen=True)
class CallError:
    """What is wrong: a flag code, a sentence, and the code-point offset in the payload's text (None: the whole)."""

    code: str
    message: str
    position: int | None = None


@dataclass(frozen=True)
class ToolCall:
    """One call as generated. `name` is None where it cannot be read; `arguments` is the raw text, every digit kept.

    `value` is the arguments as read: of JSON with its types (numbers stay text, see `jsontext`), of a grammar of bare text as
    `RawText`, whose type is its tool's schema's to say. None where they cannot be read.
    """

    name: str | None
    arguments: str | None
    error: CallError | None = None
    value: dict[str, JsonValue] | None = None
    note: str | None = None
    """A deviation that loses nothing, in words"""
    span: tuple[int, int] | None = None
    """Where the arguments stand in the payload's text"""
    places: Mapping[str, int] = field(default_factory=dict)
    """Where each argument's value begins in the payload's text; empty for JSON, whose places can be read from it"""
    builtin: bool = False
    """A tool of the family's own (harmony's python and browser): no prompt lists it among its tools"""

    @property
    def valid(self) -> bool:
        """Whether name and arguments could be read as the family writes them."""
        return self.error is None


def noted(calls: Sequence[ToolCall], note: str) -> tuple[ToolCall, ...]:
    """The calls, each with this note where it has none of its own."""
    return tuple(replace(call, note=call.note or note) for call in calls)
