"""The checks of tool calls: can each be read, and is it a call of what the prompt offered."""

from inference.quality.answer import Answer
from inference.quality.flags import Flag, flag
from inference.tokens.schema import check_call
from inference.tokens.segmentation.segments import Segment
from inference.tokens.toolcalls import read_calls, token_at


def check_calls(answer: Answer) -> list[Flag]:
    """Every call's faults, one flag each: what cannot be read, and what does not fit the prompt's tools."""
    found = [
        flag("tool_json_invalid", start, end, "The tool call is empty: nothing stands between its markers.")
        for start, end in answer.segmentation.calls_empty
    ]
    for part in answer.of_kind("tool_call"):
        found += _check(answer, part)
    return found


def _check(answer: Answer, part: Segment) -> list[Flag]:
    ids = answer.ids[part.start : part.end]
    found = []
    for call in read_calls(answer.bound, answer.tokenizer, ids, answer.tools):
        if call.error is not None:
            start, end = part.start, part.end
            message = call.error.message
            if call.error.position is not None:
                start = part.start + token_at(answer.tokenizer, ids, call.error.position)
                end = start + 1
                message = f"{message} (at character {call.error.position} of the call)"
            found.append(flag(call.error.code, start, end, message))
        if call.note is not None:
            found.append(flag("tool_dialect", part.start, part.end, call.note))
        found += [flag(error.code, part.start, part.end, error.message) for error in check_call(call, answer.tools)]
    return found
