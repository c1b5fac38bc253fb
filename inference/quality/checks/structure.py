"""What segmentation noted about delimiters, as flags: this module holds the sentences, `tokens/segmentation` finds the facts."""

from inference.quality.answer import Answer
from inference.quality.flags import FLAG_CODES, Flag, Severity, flag

_SENTENCES = {
    "close_without_open": "A think block is closed that was never opened; what stands before it counts as reasoning.",
    "extra_close": "This closing think token closes nothing; it was left in the text.",
    "nested_open": "A think block is opened inside reasoning; the token was left in it.",
    "multiple_reasoning": "A further block of reasoning.",
    "after_stop": "These ids follow the stop id.",
    "tool_call_in_reasoning": "A tool call begins before the reasoning was closed; it ends the reasoning.",
    "tool_call_in_reasoning/text": "A tool call inside reasoning that closes later; it is text of the reasoning.",
    "tool_call_unclosed": "The tool call has no end marker.",
    "tool_call_bare": "The tool call has no begin marker; by its first characters it is one.",
    "tool_section_unbalanced/begin": "The call stands outside any section of tool calls: its begin marker is missing.",
    "tool_section_unbalanced/end": "The end of a section of tool calls that was never begun; it was left in the text.",
    "tool_section_unbalanced/open": "The section of tool calls has no end marker.",
    "tool_section_unbalanced/empty": "The section of tool calls holds no call.",
    "tool_section_unbalanced/stray": "Text inside the section of tool calls, but in no call.",
    "header_malformed": "The header of this message cannot be read; the whole message counts as malformed.",
    "header_malformed/cut": "The header of this message was cut off at the token limit.",
    "header_malformed/channel": "The header of this message names no channel; its text counts as content.",
    "header_malformed/unended": "The next message begins here although the one before has no end marker.",
    "final_missing": "The answer ends after a message that is neither final nor a tool call.",
    "final_missing/cut": "The token limit was reached before any final message or tool call.",
    "delimiter_shared": "This spelled delimiter shares an id with the text beside it, which went with the delimiter.",
    "role_marker_in_output": "The answer begins a message of another role than the assistant's.",
    "reasoning_unclosed": "The reasoning was not closed, and the answer ended.",
    "reasoning_unclosed/cut": "The reasoning was not closed before the token limit.",
}
_MILD: dict[str, Severity] = {
    "tool_call_in_reasoning/text": "info",
    "header_malformed/channel": "warning",
    "header_malformed/unended": "warning",
    "header_malformed/cut": "warning",
    "final_missing/cut": "warning",
}

NOTED = frozenset(key.partition("/")[0] for key in _SENTENCES)
"""The codes of the notes that are known here."""


def check_structure(answer: Answer) -> list[Flag]:
    """One flag for each note. What the token limit explains is told so, and milder where no other cause is possible."""
    found = []
    for note in answer.segmentation.notes:
        code = note.code
        if answer.empty and code in {"reasoning_unclosed", "final_missing"}:
            continue
        key = f"{code}/{note.detail}" if note.detail else code
        if answer.truncated and not note.detail and note.end >= answer.end and f"{code}/cut" in _SENTENCES:
            key = f"{code}/cut"
        sentence = _SENTENCES.get(key) or _SENTENCES.get(code) or FLAG_CODES[code].meaning
        found.append(flag(code, note.start, note.end, sentence, _MILD.get(key)))
    return found
