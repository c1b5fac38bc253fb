"""What stands in the content and has no business there, and content that is missing."""

from inference.quality.answer import Answer
from inference.quality.flags import Flag, Severity, flag
from inference.tokens.segmentation.roles import Role
from inference.tokens.segmentation.spelling import find_spelled

_LEFT_IN_REASONING = frozenset({Role.FOREIGN, Role.CHANNEL, Role.MESSAGE_BODY})


def check_content(answer: Answer) -> list[Flag]:
    """A finished answer without content and without a call. A truncated one had no chance, and says so itself."""
    if answer.empty or answer.truncated or answer.has_content():
        return []
    if answer.of_kind("tool_call") or answer.segmentation.calls_empty:
        return []
    only = "reasoning" if answer.segmentation.reasoning_tokens else "whitespace and control tokens"
    return [flag("content_empty", 0, answer.end, f"The answer is finished and holds {only} only.")]


def check_control_tokens(answer: Answer) -> list[Flag]:
    """Markers of other turns anywhere (after the stop they are cut off with the rest); control tokens left in the text or in calls."""
    found: list[Flag] = []
    inside, here, body = answer.of_kind("content", "tool_call", "reasoning"), 0, -1
    for at, role in answer.segmentation.marks:
        if role == Role.SPEAKER or (role == Role.MESSAGE_START and at >= answer.end):
            found.append(_speaker(answer, at))
        if at >= answer.end:
            continue
        while here < len(inside) and inside[here].end <= at:
            here += 1
        if here == len(inside) or at < inside[here].start or role == Role.THINK_CLOSE:
            continue  # acting; an extra close has a flag of its own
        kind = inside[here].kind
        if kind == "reasoning" and role not in _LEFT_IN_REASONING:
            continue  # has a flag of its own, or is part of a call that is text of the reasoning
        if kind == "tool_call" and _orders_a_call(role, header=body != here):
            body = here if role == Role.MESSAGE_BODY else body
            continue
        text = answer.tokenizer.token_text(int(answer.ids[at]))
        where = "a tool call" if kind == "tool_call" else kind
        found.append(flag("control_in_content", at, at + 1, f"The control token {text} stands in {where}."))
    return found


def _orders_a_call(role: int, *, header: bool) -> bool:
    """Whether a marker is a part of the call it stands in; `header`: the call's header, if it has one, is not over yet."""
    return role in {Role.SEPARATOR, Role.INNER} or (header and role in {Role.CHANNEL, Role.MESSAGE_BODY})


def _speaker(answer: Answer, at: int) -> Flag:
    text, after = answer.tokenizer.token_text(int(answer.ids[at])), at >= answer.end
    what = f"After its end the model went on with {text}" if after else f"The answer holds {text}"
    mild: Severity | None = "warning" if after else None
    return flag("role_marker_in_output", at, at + 1, f"{what}, which begins another turn.", mild)


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
