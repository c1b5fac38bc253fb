"""Every flag a machine check can raise on a sample or on its prompt: code, how bad it is, and its meaning in one sentence."""

from typing import Literal, NamedTuple

Severity = Literal["info", "warning", "error"]


class FlagCode(NamedTuple):
    """A kind of flag. A single flag may be milder than its kind where the case is."""

    code: str
    severity: Severity
    meaning: str


class Flag(NamedTuple):
    """What one check found: the cited range is half-open in output ids, None where it is not about a place in them."""

    code: str
    severity: Severity
    start: int | None
    end: int | None
    message: str


_OF_PROMPT = (
    FlagCode(
        "content_lost", "error", "A part of the conversation is not in the prompt: the chat template left it out."
    ),
    FlagCode("reasoning_stripped", "warning", "The chat template left an earlier turn's reasoning out of the prompt."),
    FlagCode(
        "control_in_prompt", "warning", "A message spells a control token, which became a real one in the prompt."
    ),
    FlagCode("none_in_prompt", "warning", "The prompt holds a Python value that stands in no message."),
    FlagCode("double_bos", "warning", "The prompt begins with two begin-of-text tokens."),
    FlagCode("kwarg_type", "warning", "A chat template argument is a text where a template reads true or false."),
    FlagCode("date_in_prompt", "warning", "The template writes today's date: another day gives another prompt."),
    FlagCode("arguments_not_json", "warning", "A call in the conversation has arguments that are not a JSON object."),
    FlagCode(
        "tool_text_unofficial",
        "warning",
        "The tools stand in the prompt in another way than the model's own code writes them.",
    ),
    FlagCode(
        "text_changed", "info", "The tokenizer changed the prompt's text, such as its Unicode form, before encoding it."
    ),
    FlagCode("tools_wrapped", "info", "A tool came without its function wrapper and was wrapped."),
    FlagCode("parts_joined", "info", "Several text parts of one message were joined."),
)
_OF_ANSWER = (
    FlagCode("truncated", "error", "The answer was cut off at the token limit."),
    FlagCode("output_empty", "error", "The answer holds no ids, or nothing but its stop id."),
    FlagCode(
        "finish_mismatch", "warning", "What the server said about the end of the answer and its last id do not agree."
    ),
    FlagCode("after_stop", "warning", "Ids follow the stop id; they are no part of the answer."),
    FlagCode("ends_inside_character", "warning", "A part of the answer ends in the middle of a character."),
    FlagCode("repetition_loop", "error", "The text repeats itself exactly, over and over, to its end."),
    FlagCode("reasoning_missing", "warning", "Reasoning was due, and there is none."),
    FlagCode("reasoning_empty", "error", "Reasoning was due, and its block holds nothing but whitespace."),
    FlagCode("reasoning_unclosed", "error", "The reasoning was never closed."),
    FlagCode("reasoning_unexpected", "warning", "The answer reasons although the prompt asked for none."),
    FlagCode(
        "close_without_open",
        "warning",
        "A think block is closed that was never opened; what stands before it is reasoning.",
    ),
    FlagCode("extra_close", "warning", "A closing think token closes nothing and was left in the text."),
    FlagCode("nested_open", "warning", "A think block is opened inside reasoning; the token was left in it."),
    FlagCode("multiple_reasoning", "warning", "The answer has more than one block of reasoning."),
    FlagCode("content_empty", "error", "The answer is finished and has neither content nor a tool call."),
    FlagCode("role_marker_in_output", "error", "The model began another turn or speaker inside its answer."),
    FlagCode(
        "delimiter_spelled", "warning", "Content spells a delimiter with ordinary ids: parsers of text would act on it."
    ),
    FlagCode("control_in_content", "warning", "A control token was left in content or in a tool call."),
    FlagCode("tool_call_in_reasoning", "warning", "A tool call begins while reasoning is open."),
    FlagCode("tool_call_unclosed", "error", "A tool call has no end marker."),
    FlagCode("tool_section_unbalanced", "warning", "The markers around the tool calls do not fit together."),
    FlagCode("tool_json_invalid", "error", "A tool call, or its arguments, is not valid JSON."),
    FlagCode("tool_arguments_invalid", "error", "A tool call's arguments are missing or are not a JSON object."),
    FlagCode("tool_name_unreadable", "error", "The name of the tool that is called cannot be read."),
    FlagCode(
        "tool_dialect", "info", "A tool call is written in a neighbouring family's way; it was read all the same."
    ),
    FlagCode("tool_unknown", "warning", "A tool is called that the prompt did not offer."),
    FlagCode("tool_argument_unknown", "warning", "A tool call has an argument that the tool's schema does not know."),
    FlagCode("tool_argument_missing", "warning", "A tool call lacks an argument that the tool's schema requires."),
    FlagCode(
        "tool_argument_type",
        "warning",
        "A tool call's argument has another type or value than the tool's schema wants.",
    ),
)

FLAG_CODES: dict[str, FlagCode] = {item.code: item for item in (*_OF_PROMPT, *_OF_ANSWER)}
"""In the order flags are shown: a cause before its consequences."""

_PLACE = {code: place for place, code in enumerate(FLAG_CODES)}
_FIRST = {"truncated", "output_empty"}


def flag(code: str, start: int | None, end: int | None, message: str, severity: Severity | None = None) -> Flag:
    """A flag of a declared code, with the code's severity unless another is given."""
    return Flag(code, severity or FLAG_CODES[code].severity, start, end, message)


def in_order(flags: list[Flag]) -> tuple[Flag, ...]:
    """Truncation and emptiness first, since they explain the rest; then by place, then as declared."""
    return tuple(sorted(flags, key=lambda item: (item.code not in _FIRST, item.start or 0, _PLACE[item.code])))
