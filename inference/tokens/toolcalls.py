"""A tool call segment as a call: decoded, split at the family's separator id, and read by the family's grammar.

What was generated is what is given back: the raw arguments text, and where the first error is. Nothing is repaired.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import as_ids
from inference.tokens.payloads.payload import CallError, Payload, ToolCall
from inference.tokens.schema import tool_schemas
from inference.tokens.tokenizer import Tokenizer

__all__ = ["CallError", "ToolCall", "read_call", "read_calls", "token_at"]


def read_calls(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    ids: Sequence[int] | NDArray[np.integer[Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[ToolCall, ...]:
    """The calls in one `tool_call` segment: one, except where the grammar lets a payload hold a list.

    `tools` are the prompt's; a name that is spelled loosely is read only where it leads to one of them.
    """
    array = as_ids(ids)
    reader = bound.format.payload
    text = tokenizer.decode(array)
    if reader is None:
        return (
            ToolCall(None, text, CallError("tool_name_unreadable", f"The format {bound.name} knows no tool calls.", 0)),
        )
    parts: tuple[str, ...] = (text,)
    offset = 0
    if bound.separator_id is not None:
        places = np.flatnonzero(array == bound.separator_id)
        if places.size:
            at = int(places[0])
            last = tokenizer.decode(array[at + 1 :])
            parts, offset = (tokenizer.decode(array[:at]), last), len(text) - len(last)
    return reader(Payload(text, parts, offset, frozenset(tool_schemas(tools))))


def read_call(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    ids: Sequence[int] | NDArray[np.integer[Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> ToolCall:
    """The first call in one `tool_call` segment (see `read_calls`)."""
    return read_calls(bound, tokenizer, ids, tools)[0]


def token_at(tokenizer: Tokenizer, ids: Sequence[int] | NDArray[np.integer[Any]], position: int) -> int:
    """Which of the ids holds the code point at `position` of their text; the last id for a position at or past the end."""
    array = as_ids(ids).tolist()
    target = len(tokenizer.decode(np.array(array, dtype=np.uint32))[:position].encode("utf-8", "replace"))
    read = 0
    for index, number in enumerate(array):
        read += len(tokenizer.token_bytes(number))
        if read > target:
            return index
    return max(len(array) - 1, 0)
