"""The systemic faults that the run guard knows: whom each concerns, who has it, what usually causes it, and the cure."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one sample. `ok` is false for a failed request, which then has an `error_code` and no flags.

    `has_tool_call` says whether the answer holds a call; None (the caller does not know) keeps it out of the rule about calls.
    """

    sample_id: int
    category: str | None
    ok: bool
    error_code: str | None = None
    finish_reason: str | None = None
    flags: frozenset[str] = frozenset()
    completion_tokens: int = 0
    has_tool_call: bool | None = None


@dataclass(frozen=True)
class Fault:
    """A fault that many samples can share. `due`: whether a sample could show it; `bad`: whether it does."""

    code: str
    due: Callable[[Outcome], bool]
    bad: Callable[[Outcome], bool]
    seen: str
    cause: str
    cure: str
    of_reasoning: bool = False


def _with(*codes: str) -> Callable[[Outcome], bool]:
    wanted = frozenset(codes)
    return lambda outcome: not wanted.isdisjoint(outcome.flags)


def _answered(outcome: Outcome) -> bool:
    return outcome.ok


def _finished(outcome: Outcome) -> bool:
    return outcome.ok and outcome.finish_reason != "length" and "truncated" not in outcome.flags


_BROKEN_CALL = _with("tool_json_invalid", "tool_name_unreadable", "tool_arguments_invalid", "tool_call_unclosed")

FAULTS: tuple[Fault, ...] = (
    Fault(
        "requests_failing",
        due=lambda outcome: True,  # noqa: ARG005  (every request can fail)
        bad=lambda outcome: not outcome.ok,
        seen="{bad} of {due} requests failed",
        cause="Usually the server died, refuses the requests' settings, or is full.",
        cure="Look at the failed samples' errors and the backend's log, then resume and retry them.",
    ),
    Fault(
        "truncated",
        due=_answered,
        bad=lambda outcome: outcome.finish_reason == "length" or "truncated" in outcome.flags,
        seen="{bad} of {due} answers were cut off at the token limit",
        cause="Usually max_new_tokens is too small for a thinking model, or the stop ids are wrong and nothing ends an answer.",
        cure="Raise max_new_tokens, or correct the stop ids, and start again.",
    ),
    Fault(
        "reasoning_empty",
        due=_answered,
        bad=_with("reasoning_empty", "reasoning_missing"),
        seen="{bad} of {due} answers have empty or no reasoning although it was due",
        cause="Usually the chat template or its arguments switch thinking off, or the token format is another family's.",
        cure="Look at one prompt's render and at chat_template_kwargs (enable_thinking, thinking), then start again.",
        of_reasoning=True,
    ),
    Fault(
        "reasoning_unclosed",
        due=_finished,
        bad=_with("reasoning_unclosed"),
        seen="{bad} of {due} finished answers never close their reasoning",
        cause="Usually the prompt opens a think block for a model that does not think, or a stop id ends it before the close.",
        cure="Check the token format and the stop ids against the model's own template, then start again.",
        of_reasoning=True,
    ),
    Fault(
        "content_empty",
        due=_finished,
        bad=_with("content_empty", "output_empty"),
        seen="{bad} of {due} finished answers have no content",
        cause="Usually the model stops right after its prompt or its reasoning: a wrong template, or a stop id that comes too early.",
        cure="Look at the tokens of one sample and at the stop ids, then start again.",
    ),
    Fault(
        "tool_calls_malformed",
        due=lambda outcome: outcome.ok and outcome.has_tool_call is True,
        bad=_BROKEN_CALL,
        seen="{bad} of {due} answers with tool calls have calls that cannot be read",
        cause="Usually the token format is another family's, or the tools were rendered in a way the model does not know.",
        cure="Compare one call's tokens with the model's template, choose the right token format, then start again.",
    ),
    Fault(
        "repetition_loop",
        due=_answered,
        bad=_with("repetition_loop"),
        seen="{bad} of {due} answers end in an endless repetition",
        cause="Usually greedy or too cold sampling, or a damaged checkpoint or quantisation.",
        cure="Take the model's own sampling (its generation_config) or another checkpoint, then start again.",
    ),
)
