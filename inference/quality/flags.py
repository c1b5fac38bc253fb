"""Every flag a machine check can raise on a sample or on its prompt: code, how bad it is, and its meaning in one sentence."""

from typing import Literal, NamedTuple

Severity = Literal["info", "warning", "error"]
Needs = Literal["prompt", "ids", "text", "run", "demand"]
"""What it takes to raise a flag, and so when it can come: `prompt`: the rendered prompt, before the request; `ids`: the answer's
ids, as it arrives; `text`: its text, in a pass behind the run; `run`: the other answers of the run, in that pass too; `demand`:
more work than a pass should do for every sample, so only where it is asked for."""


class FlagCode(NamedTuple):
    """A kind of flag. A single flag may be milder than its kind where the case is.

    `default`: whether a run looks for it where its settings do not say.
    """

    code: str
    severity: Severity
    meaning: str
    needs: Needs = "ids"
    default: bool = True


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
    FlagCode(
        "tool_part_lost",
        "warning",
        "A tool is in the prompt without its description or one of its parameters: the chat template left it out.",
    ),
    FlagCode("reasoning_stripped", "info", "The chat template left an earlier turn's reasoning out of the prompt."),
    FlagCode("reasoning_doubled", "warning", "An earlier turn's reasoning is in the prompt more than once."),
    FlagCode("system_moved", "info", "The chat template puts a system message elsewhere than it stands."),
    FlagCode("role_mapped", "info", "A message was rendered under another role, as the role map says."),
    FlagCode("tool_without_call", "warning", "A message is a tool's result, and no call before it waits for one."),
    FlagCode(
        "control_in_prompt", "warning", "A message spells a control token, which became a real one in the prompt."
    ),
    FlagCode("none_in_prompt", "warning", "The prompt holds a Python value that stands in no message."),
    FlagCode("python_literal", "info", "The chat template writes true and false as Python does."),
    FlagCode("double_bos", "warning", "The prompt begins with two begin-of-text tokens."),
    FlagCode("kwarg_type", "warning", "A chat template argument is not what the template takes for true or false."),
    FlagCode("kwarg_unused", "warning", "A chat template argument is one that the template never reads."),
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
    FlagCode(
        "id_without_token", "warning", "The answer holds an id that no token of the tokenizer has: it shows as nothing."
    ),
    FlagCode("ends_inside_character", "warning", "A part of the answer ends in the middle of a character."),
    FlagCode("repetition_loop", "error", "The text repeats itself exactly, over and over, to its end."),
    FlagCode("text_unread", "warning", "The checks that read the answer's text could not look at it.", "text"),
    FlagCode(
        "near_repetition",
        "warning",
        "The same few sentences come again and again, exactly or with other numbers in them.",
        "text",
    ),
    FlagCode(
        "header_malformed",
        "error",
        "A message's header cannot be read; the message counts as malformed, and its ids are kept.",
    ),
    FlagCode("final_missing", "error", "The answer ends after a message that is neither final nor a tool call."),
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
    FlagCode(
        "delimiter_shared",
        "info",
        "A delimiter that is spelled with ordinary ids shares one of them with the text beside it.",
    ),
    FlagCode(
        "marker_foreign",
        "info",
        "Content spells a marker of another model family, which delimits nothing in this one.",
        "text",
    ),
    FlagCode("control_in_content", "warning", "A control token was left in reasoning, in content or in a tool call."),
    FlagCode("tool_call_in_reasoning", "warning", "A tool call begins while reasoning is open."),
    FlagCode("tool_call_bare", "info", "A tool call came without its begin marker; it was read all the same."),
    FlagCode("tool_call_unclosed", "error", "A tool call has no end marker."),
    FlagCode("tool_section_unbalanced", "warning", "The markers around the tool calls do not fit together."),
    FlagCode("tool_json_invalid", "error", "A tool call, or its arguments, is not valid JSON."),
    FlagCode(
        "tool_arguments_invalid",
        "error",
        "A tool call's arguments are missing, or are not written as the family writes them.",
    ),
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
    FlagCode(
        "language_mismatch",
        "info",
        "The answer is in another writing system than the prompt, which did not ask for it.",
        "text",
    ),
    FlagCode(
        "retokenization_drift",
        "info",
        "The answer's text, encoded again, gives other ids: a row made from text would train what was never generated.",
        "demand",
        default=False,
    ),
    FlagCode("length_outlier", "info", "The answer is much longer or shorter than the others of its category.", "run"),
    FlagCode("duplicate_answer", "info", "The same answer, id for id, was given to another prompt.", "run"),
)

FLAG_CODES: dict[str, FlagCode] = {
    item.code: item for item in (*(item._replace(needs="prompt") for item in _OF_PROMPT), *_OF_ANSWER)
}
"""In the order flags are shown: a cause before its consequences."""

OFF_BY_DEFAULT = frozenset(item.code for item in FLAG_CODES.values() if not item.default)

_PLACE = {code: place for place, code in enumerate(FLAG_CODES)}
_FIRST = {"truncated", "output_empty"}


def flag(code: str, start: int | None, end: int | None, message: str, severity: Severity | None = None) -> Flag:
    """A flag of a declared code, with the code's severity unless another is given."""
    return Flag(code, severity or FLAG_CODES[code].severity, start, end, message)


def in_order(flags: list[Flag]) -> tuple[Flag, ...]:
    """Truncation and emptiness first, since they explain the rest; then by place, then as declared."""
    return tuple(sorted(flags, key=lambda item: (item.code not in _FIRST, item.start or 0, _PLACE[item.code])))
