"""The checks that look at ids only: each takes an answer and returns its flags, with the range each cites."""

from collections.abc import Callable

import numpy as np

from inference.quality.answer import Answer
from inference.quality.flags import Flag, Severity, flag
from inference.quality.repetition import LEAST_TOKENS, find_loop
from inference.quality.toolchecks import check_calls
from inference.tokens.segmentation.roles import Role
from inference.tokens.segmentation.spelling import find_spelled

Check = Callable[[Answer], list[Flag]]
_MOST_BLOCKS = 100  # of reasoning looked at one by one


def check_end(answer: Answer) -> list[Flag]:
    """Truncated, empty, ids after the stop, and an end that is not what the server said."""
    n, found = len(answer.ids), []
    if answer.truncated:
        found.append(flag("truncated", max(n - 1, 0), n, f"Cut off at the token limit after {n:,} tokens."))
    elif answer.empty:
        what = "The answer is a stop id and nothing else." if n else "The answer has no ids."
        found.append(flag("output_empty", 0, n, what))
    message = _mismatch(answer)
    if message:
        found.append(flag("finish_mismatch", max(n - 1, 0), n, message))
    return found


def _mismatch(answer: Answer) -> str | None:
    n, matched = len(answer.ids), answer.finish_matched
    last = int(answer.ids[-1]) if n else None
    if answer.truncated:
        whole = answer.segmentation.stop == n - 1 and n > 0
        return f"The server says the limit was reached, but the last id {last} is a stop id." if whole else None
    if answer.finish_reason != "stop":
        return None
    if isinstance(matched, int) and not isinstance(matched, bool):
        if matched != last:
            return f"The server says it stopped at id {matched}, but the last id is {'none' if last is None else last}."
    elif matched is None and last not in answer.stop_ids:
        return f"The server says it stopped, but the last id {'is none' if last is None else f'{last} is no stop id'}."
    return None


def check_reasoning(answer: Answer) -> list[Flag]:
    """Reasoning that is missing, empty, or there although it was switched off."""
    if answer.empty:
        return []
    blocks, state = answer.segmentation.reasoning, answer.segmentation.prompt_state
    if not blocks:
        if not answer.reasoning_due:
            return []
        return [flag("reasoning_missing", 0, answer.end, "Reasoning was due, and the answer has none.")]
    if answer.reasoning_due is False:
        first = blocks[0]
        off = "The prompt closed the think block" if state == "closed" else "This model is not expected to think"
        return [
            flag(
                "reasoning_unexpected",
                first.outer_start,
                first.outer_end,
                f"{off}, and the answer reasons all the same.",
            )
        ]
    found = []
    nested = [note.start for note in answer.segmentation.notes if note.code == "nested_open"]
    for block in blocks[:_MOST_BLOCKS]:
        if block.ended_by == "end" and answer.truncated:
            continue  # cut off before it could say anything
        ids = answer.ids[block.start : block.end]
        if nested:  # a nested open is no thought
            ids = np.delete(ids, [at - block.start for at in nested if block.start <= at < block.end])
        if answer.tokenizer.is_blank(ids):
            start, end = (block.start, block.end) if block.end > block.start else (block.outer_start, block.outer_end)
            found.append(flag("reasoning_empty", start, end, "The reasoning holds nothing but whitespace."))
    return found


_SENTENCES = {
    (
        "close_without_open",
        "",
    ): "A think block is closed that was never opened; what stands before it counts as reasoning.",
    ("extra_close", ""): "This closing think token closes nothing; it was left in the text.",
    ("nested_open", ""): "A think block is opened inside reasoning; the token was left in it.",
    ("multiple_reasoning", ""): "A further block of reasoning.",
    ("after_stop", ""): "These ids follow the stop id.",
    ("tool_call_in_reasoning", ""): "A tool call begins before the reasoning was closed; it ends the reasoning.",
    ("tool_call_in_reasoning", "text"): "A tool call inside reasoning that closes later; it is text of the reasoning.",
    ("tool_call_unclosed", ""): "The tool call has no end marker.",
    (
        "tool_section_unbalanced",
        "begin",
    ): "The call stands outside any section of tool calls: its begin marker is missing.",
    (
        "tool_section_unbalanced",
        "end",
    ): "The end of a section of tool calls that was never begun; it was left in the text.",
    ("tool_section_unbalanced", "open"): "The section of tool calls has no end marker.",
    ("tool_section_unbalanced", "stray"): "Text inside the section of tool calls, but in no call.",
}


def check_structure(answer: Answer) -> list[Flag]:
    """What segmentation noted about delimiters."""
    found = []
    for note in answer.segmentation.notes:
        if note.code == "reasoning_unclosed":
            if answer.empty:
                continue
            why = " before the token limit" if answer.truncated else ", and the answer ended"
            found.append(flag(note.code, note.start, note.end, f"The reasoning was not closed{why}."))
        else:
            mild: Severity | None = "info" if note.detail == "text" else None
            found.append(flag(note.code, note.start, note.end, _SENTENCES[note.code, note.detail], mild))
    return found


def check_content(answer: Answer) -> list[Flag]:
    """A finished answer without content and without a call. A truncated one had no chance, and says so itself."""
    if answer.empty or answer.truncated or answer.has_content():
        return []
    if answer.of_kind("tool_call") or answer.segmentation.calls_empty:
        return []
    only = "reasoning" if answer.segmentation.reasoning_tokens else "whitespace and control tokens"
    return [flag("content_empty", 0, answer.end, f"The answer is finished and holds {only} only.")]


def check_control_tokens(answer: Answer) -> list[Flag]:
    """Markers of other turns anywhere (after the stop they are cut off with the rest); control tokens left in content or calls."""
    found: list[Flag] = []
    inside, here = answer.of_kind("content", "tool_call"), 0
    for at, role in answer.segmentation.marks:
        if role == Role.SPEAKER:
            text = answer.tokenizer.token_text(int(answer.ids[at]))
            after = at >= answer.end
            what = f"After its end the model went on with {text}" if after else f"The answer holds {text}"
            found.append(
                flag(
                    "role_marker_in_output",
                    at,
                    at + 1,
                    f"{what}, which begins another turn.",
                    "warning" if after else None,
                )
            )
        if at >= answer.end:
            continue
        while here < len(inside) and inside[here].end <= at:
            here += 1
        if here == len(inside) or at < inside[here].start or role == Role.THINK_CLOSE:
            continue  # in reasoning or acting; an extra close has a flag of its own
        kind = inside[here].kind
        if kind == "tool_call" and role == Role.SEPARATOR:
            continue
        text = answer.tokenizer.token_text(int(answer.ids[at]))
        where = "content" if kind == "content" else "a tool call"
        found.append(flag("control_in_content", at, at + 1, f"The control token {text} stands in {where}."))
    return found


def check_spelled(answer: Answer) -> list[Flag]:
    """Delimiters written out letter by letter; in reasoning, or in another family's spelling, they are but a note."""
    flags = []
    for part in answer.of_kind("reasoning", "content"):
        for found in find_spelled(answer.bound, answer.ids[part.start : part.end]):
            instead = "instead of its own" if found.known else "and no id of this model delimits by it"
            message = f"The {part.kind} spells {found.text} with {found.end - found.start} ordinary ids {instead}."
            mild: Severity | None = None if found.known and part.kind == "content" else "info"
            flags.append(flag("delimiter_spelled", part.start + found.start, part.start + found.end, message, mild))
    return flags


def check_characters(answer: Answer) -> list[Flag]:
    """Text that ends inside a character."""
    found = []
    for part in answer.of_kind("reasoning", "content", "tool_call"):
        tail = answer.ids[max(part.start, part.end - 4) : part.end]
        missing = _unfinished(answer.tokenizer.bytes_of(tail))
        if missing:
            at = part.end - 1
            found.append(flag("ends_inside_character", at, part.end, f"The {part.kind} ends inside a character."))
    return found


def _unfinished(data: bytes) -> bool:
    """Whether the bytes end with the beginning of a UTF-8 character."""
    for back, byte in enumerate(reversed(data[-4:]), start=1):
        if byte >= 0xC0:  # noqa: PLR2004  (a UTF-8 lead byte; how many bytes it announces follows)
            return back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)  # noqa: PLR2004
        if byte < 0x80:  # noqa: PLR2004
            return False
    return False


def check_repetition(answer: Answer) -> list[Flag]:
    """An exact loop at the end of the answer, or of one of its parts."""
    found = []
    whole = find_loop(answer.ids[: answer.end])
    covered = len(answer.ids)
    spans = []
    if whole is not None:
        spans.append((whole.start, whole.end, whole.period))
        covered = whole.start
    for part in answer.of_kind("reasoning", "content"):
        if part.end - part.start < LEAST_TOKENS or part.end > covered or part.end == answer.end:
            continue
        loop = find_loop(answer.ids[part.start : part.end])
        if loop is not None:
            spans.append((part.start + loop.start, part.end, loop.period))
    for start, end, period in spans:
        length, share = end - start, round(100 * (end - start) / len(answer.ids))
        every = "one token" if period == 1 else f"{period} tokens"
        message = (
            f"{length:,} tokens from {start:,} on repeat {every}, {length // period} times: {share} % of the answer."
        )
        found.append(flag("repetition_loop", start, end, message))
    return found


CHECKS: tuple[Check, ...] = (
    check_end,
    check_repetition,
    check_reasoning,
    check_structure,
    check_content,
    check_control_tokens,
    check_spelled,
    check_characters,
    check_calls,
)
