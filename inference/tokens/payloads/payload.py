"""What goes into a payload reader and what comes out of it."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from inference.tokens.payloads.jsontext import JsonValue


@dataclass(frozen=True)
class Payload:
    """The text of one call, between its markers.

    `parts` is the text before and after the family's separator token, where it has one and it occurs (split at the first);
    `offset` is where the last part begins in `text`. `tools` are the names the prompt offered, empty where it offered none
    or they are unknown.
    """

    text: str
    parts: tuple[str, ...]
    offset: int
    tools: AbstractSet[str] = frozenset()


@dataclass(frozen=True)
class CallError:
    """What is wrong: a flag code, a sentence, and the code-point offset in the payload's text (None: the whole)."""

    code: str
    message: str
    position: int | None = None


@dataclass(frozen=True)
class ToolCall:
    """One call as generated. `name` is None where it cannot be read; `arguments` is the raw text, every digit kept.

    `value` is the arguments read as JSON (numbers stay text, see `jsontext`), None where they are not a JSON object.
    """

    name: str | None
    arguments: str | None
    error: CallError | None = None
    value: dict[str, JsonValue] | None = None
    note: str | None = None
    """A deviation that loses nothing, in words"""
    span: tuple[int, int] | None = None
    """Where the arguments stand in the payload's text"""

    @property
    def valid(self) -> bool:
        """Whether name and arguments could be read as the family writes them."""
        return self.error is None
