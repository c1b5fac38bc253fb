"""Reasoning that is missing, empty, or there although nobody asked for it."""

from inference.quality.answer import Answer
from inference.quality.flags import Flag, Severity, flag

_MOST_BLOCKS = 100  # of reasoning looked at one by one


def check_reasoning(answer: Answer) -> list[Flag]:
    """Reasoning where it is due, and none where it is not; whitespace is none.

    Where nobody can tell whether it was due (the prompt is unknown), an empty block is a note.
    """
    if answer.empty:
        return []
    blocks, due = answer.segmentation.reasoning, answer.reasoning_due
    if not blocks:
        return [flag("reasoning_missing", 0, answer.end, "Reasoning was due, and the answer has none.")] if due else []
    if due is False:
        return _unexpected(answer)
    found = []
    nested = [note.start for note in answer.segmentation.notes if note.code == "nested_open"]
    mild: Severity | None = "info" if due is None else None
    for block in blocks[:_MOST_BLOCKS]:
        if block.ended_by == "end" and answer.truncated:
            continue  # cut off before it could say anything
        inside = [at for at in nested if block.start <= at < block.end] if nested else []  # a nested open is no thought
        if answer.is_blank(block.start, block.end, but=inside):
            start, end = (block.start, block.end) if block.end > block.start else (block.outer_start, block.outer_end)
            found.append(flag("reasoning_empty", start, end, "The reasoning holds nothing but whitespace.", mild))
    return found


def _unexpected(answer: Answer) -> list[Flag]:
    """One flag for the first block that says something; empty blocks are how some models say that they do not think."""
    closed = answer.segmentation.prompt_state == "closed"
    off = "The prompt closed the think block" if closed else "This model is not expected to think"
    for block in answer.segmentation.reasoning[:_MOST_BLOCKS]:
        if not answer.is_blank(block.start, block.end):
            message = f"{off}, and the answer reasons all the same."
            return [flag("reasoning_unexpected", block.outer_start, block.outer_end, message)]
    return []
