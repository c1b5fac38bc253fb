"""Exact loops at the end of the answer, or of one of its parts, and what only looks like one."""

from inference.quality.answer import Answer
from inference.quality.flags import Flag, flag
from inference.quality.repetition import LEAST_TOKENS, Loop, find_loop

_READ_FROM = 400  # of a period, ids that are read to see whether it holds a letter
_LEAST_OF_SIGNS = 512  # tokens: a rule, an empty table or a block of zeros is shorter
_LEAST_OF_REFRAIN = 256  # tokens, or
_COPIES_OF_REFRAIN = 8


def check_loops(answer: Answer) -> list[Flag]:
    """A loop at the answer's end; else one at the end of any of its parts."""
    found = []
    segments = answer.segmentation.segments
    ids = answer.ids
    whole = find_loop(ids[: answer.end])
    covered = answer.end + 1 if whole is None else whole.start
    if whole is not None and not _is_harmless(answer, whole, 0):
        found.append(_flag(answer, whole.start, whole.end, whole.period))
    for part in segments:
        if part.kind not in {"reasoning", "content"} or part.end - part.start < LEAST_TOKENS:
            continue
        if part.end > covered or part.end == answer.end:
            continue
        loop = find_loop(ids[part.start : part.end])
        if loop is not None and not _is_harmless(answer, loop, part.start):
            found.append(_flag(answer, part.start + loop.start, part.end, loop.period))
    return found


def _is_harmless(answer: Answer, loop: Loop, offset: int) -> bool:
    """Whether this is no loop to people: signs without a letter (rules, empty tables, zeros), or a refrain that came to its end."""
    length, end = loop.end - loop.start, offset + loop.end
    stopped = answer.segmentation.stop is not None or answer.finish_reason == "stop"
    finished = end < answer.end or (stopped and not answer.truncated)
    if finished and length < _LEAST_OF_REFRAIN and loop.copies < _COPIES_OF_REFRAIN:
        return True
    if length >= _LEAST_OF_SIGNS:
        return False
    unit = answer.ids[end - loop.period : end][:_READ_FROM]
    return not any(character.isalpha() for character in answer.tokenizer.decode(unit))


def _flag(answer: Answer, start: int, end: int, period: int) -> Flag:
    length, share = end - start, round(100 * (end - start) / len(answer.ids))
    every = "one token" if period == 1 else f"{period} tokens"
    message = f"{length:,} tokens from {start:,} on repeat {every}, {length // period} times: {share} % of the answer."
    return flag("repetition_loop", start, end, message)
