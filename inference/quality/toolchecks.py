"""The checks of tool calls: can each be read, and is it a call of what the prompt offered.

Every segment is decoded and read once; where the ids of a fault are is worked out only for a segment that has one.
"""

from inference.quality.answer import Answer
from inference.quality.flags import Flag, flag
from inference.tokens.schema import Schemas, check_against, tool_schemas
from inference.tokens.segmentation.segments import Segment
from inference.tokens.toolcalls import CallError, IdPlaces, ToolCall, read_calls, read_calls_of


def check_calls(answer: Answer) -> list[Flag]:
    """Every call's faults, one flag each: what cannot be read, and what does not fit the prompt's tools."""
    schemas = tool_schemas(answer.tools)
    names = frozenset(schemas)
    found = []
    for start, end in answer.segmentation.calls_empty:
        for call in read_calls(answer.bound, answer.tokenizer, ()):
            code = call.error.code if call.error else "tool_name_unreadable"
            found.append(flag(code, start, end, "The tool call is empty: nothing stands between its markers."))
    for part in answer.of_kind("tool_call"):
        found += _Segment(answer, part, schemas, names).check()
    return found


class _Segment:
    """One segment's calls, and where in the output each fault of theirs is."""

    def __init__(self, answer: Answer, part: Segment, schemas: Schemas, names: frozenset[str]) -> None:
        self.answer = answer
        self.part = part
        self.schemas = schemas
        self.names = names
        self.ids = answer.ids[part.start : part.end]
        self.places: IdPlaces | None = None

    def check(self) -> list[Flag]:
        calls = read_calls_of(self.answer.bound, self.answer.tokenizer, self.ids, self.names)
        found = []
        for call in calls:
            whole = self._of(call) if len(calls) > 1 else (self.part.start, self.part.end)
            if call.error is not None:
                found.append(self._flag(call.error, whole, told=True))
            if call.note is not None:
                found.append(flag("tool_dialect", *whole, call.note))
            found += [self._flag(error, whole) for error in check_against(call, self.schemas)]
        return found

    def _flag(self, error: CallError, whole: tuple[int, int], *, told: bool = False) -> Flag:
        if error.position is None:
            return flag(error.code, *whole, error.message)
        start = self._id_at(error.position)
        message = f"{error.message} (at character {error.position} of the call)" if told else error.message
        return flag(error.code, start, start + 1, message)

    def _of(self, call: ToolCall) -> tuple[int, int]:
        """The ids of this call's arguments, where the segment holds several calls."""
        if call.span is None:
            return self.part.start, self.part.end
        start, end = call.span
        return self._id_at(start), self._id_at(max(end - 1, start)) + 1

    def _id_at(self, position: int) -> int:
        if self.places is None:
            self.places = IdPlaces(self.answer.tokenizer, self.ids)
        return self.part.start + self.places.find(position)
