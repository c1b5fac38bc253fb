"""A conversation to exact prompt ids, by the model's own chat template.

The template makes text, and the text is encoded with nothing added: what the template writes is all there is, so no second BOS
can slip in. That this equals what the tokenizer itself would have made of the conversation is verified, not assumed.
"""

import datetime as dt
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.formats import get_format
from inference.tokens.ids import Ids, as_ids
from inference.tokens.numbers import holds_spelled
from inference.tokens.rendering.checks import Rendered, Tools, check_render
from inference.tokens.rendering.messages import Message, Prepared, RenderWarning, prepare, wants
from inference.tokens.rendering.templates import ask_tokenizer, has_own_code, run_template
from inference.tokens.suggestion import suggest
from inference.tokens.tokenizer import Tokenizer

__all__ = ["RenderWarning", "Rendering", "render"]

DATE_KEY = "strftime_now"
_RESERVED = frozenset(
    [
        "messages",
        "conversation",
        "conversations",
        "tools",
        "documents",
        "tokenize",
        "return_tensors",
        "return_dict",
        "chat_template",
        "padding",
        "truncation",
        "max_length",
        "add_generation_prompt",
        "continue_final_message",
        "tokenizer_kwargs",
        "return_assistant_tokens_mask",
    ]
)
_VERIFIED_RENDERS = 16


class Rendering(NamedTuple):
    """Prompt ids (`uint32[n]`), the text they are of, and what a person should know about them."""

    ids: Ids
    text: str
    warnings: tuple[RenderWarning, ...]


def render(
    tokenizer: Tokenizer,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    add_generation_prompt: bool = True,
    token_format: TokenFormat | str | None = None,
) -> Rendering:
    """The conversation as prompt ids.

    `kwargs` are the template's own arguments (`enable_thinking`, …). A template that writes the date takes it from
    `strftime_now` there, an ISO date ("2026-11-30"): without it the ids differ from day to day, which is warned of.
    `token_format` (default: the one suggested) says how the family wants a call's arguments and a missing content.

    Raises `TokensError`: `no_chat_template`, `template_failed` (with the template's own sentence), `bad_message`,
    `unsupported_part`, `bad_tools`, `bad_template_kwargs`, `render_mismatch`.
    """
    if tokenizer.template is None:
        message = f"The tokenizer {tokenizer.name} has no chat template, and none is used in its place: put the model's chat_template.jinja into its folder."
        raise TokensError("no_chat_template", message, "tokenizer")
    declared = (
        token_format if isinstance(token_format, TokenFormat) else get_format(token_format or suggest(tokenizer).name)
    )
    prepared = prepare(wants(declared, tokenizer.template), messages, tools)
    arguments, warnings = _arguments(tokenizer, kwargs or {})
    if prepared.tools:
        warnings += _tools_text(tokenizer, declared, arguments)
    text = run_template(tokenizer, prepared, arguments, add_generation_prompt=add_generation_prompt)
    ids = _encode(tokenizer, text)
    if tokenizer.renders_verified < _VERIFIED_RENDERS or not tokenizer.is_fast:
        _verify(tokenizer, prepared, arguments, ids, add_generation_prompt=add_generation_prompt)
        tokenizer.renders_verified += 1

    def again(changed: Sequence[Message], changed_tools: Tools) -> str | None:
        try:
            other = Prepared(list(changed), changed_tools, [])
            return run_template(tokenizer, other, arguments, add_generation_prompt=add_generation_prompt)
        except TokensError:
            return None  # a template may refuse what it is only asked for a check

    rendered = Rendered(tokenizer, declared, prepared, text, ids, again, declared.tools_argument in arguments)
    found = dict.fromkeys([*prepared.warnings, *warnings, *check_render(rendered)])
    return Rendering(ids, text, tuple(found))


def _arguments(tokenizer: Tokenizer, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[RenderWarning]]:
    """The template's arguments, the date among them as the function that templates call."""
    arguments, warnings = dict(given), []
    for key, value in given.items():
        if key in _RESERVED:
            message = f"chat_template_kwargs.{key} cannot be given: it is set for every render."
            raise TokensError("bad_template_kwargs", message, f"chat_template_kwargs.{key}")
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            message = f"chat_template_kwargs.{key} is the text “{value}”, which counts as true in a template; give true or false."
            warnings.append(RenderWarning("kwarg_type", message))
    if DATE_KEY in arguments:
        arguments[DATE_KEY] = _clock(arguments[DATE_KEY])
    elif DATE_KEY in (tokenizer.template or ""):
        message = f"The template writes today's date; set chat_template_kwargs.{DATE_KEY} to an ISO date to keep the ids the same."
        warnings.append(RenderWarning("date_in_prompt", message))
    return arguments, warnings


def _tools_text(tokenizer: Tokenizer, declared: TokenFormat, arguments: Mapping[str, Any]) -> Iterator[RenderWarning]:
    """Where the family's own code would have written the tools and did not run."""
    name = declared.tools_argument
    if name and name in (tokenizer.template or "") and name not in arguments and not has_own_code(tokenizer.backend):
        message = (
            f"The template writes the tools in its own way, not as this model's tokenizer code does ({name}). Let that code run "
            f"(DRAFTMILL_ALLOW_REMOTE_CODE=true), or give its text as chat_template_kwargs.{name}."
        )
        yield RenderWarning("tool_text_unofficial", message)


def _clock(given: Any) -> Any:
    try:
        moment = dt.datetime.fromisoformat(given)
    except (TypeError, ValueError) as error:
        field = f"chat_template_kwargs.{DATE_KEY}"
        raise TokensError("bad_template_kwargs", f"{field} must be an ISO date like 2026-11-30.", field) from error
    return moment.strftime


def _encode(tokenizer: Tokenizer, text: str) -> Ids:
    try:
        return np.frombuffer(array("I", tokenizer.encode(text)), dtype=np.uint32)  # a list of int it is, by its type
    except (TypeError, UnicodeEncodeError) as error:
        at = next((index for index, character in enumerate(text) if "\ud800" <= character <= "\udfff"), None)
        where = "" if at is None else f": an unpaired surrogate at character {at}"
        raise TokensError("invalid_text", f"The rendered conversation is no valid text{where}.", "messages") from error


def _verify(
    tokenizer: Tokenizer, prepared: Prepared, arguments: Mapping[str, Any], ids: Ids, *, add_generation_prompt: bool
) -> None:
    """Holds the ids against what the tokenizer makes of the conversation in one go.

    Not where a null content, a date of our own or the digits of a number are in play: there the two are meant to differ.
    """
    if DATE_KEY in arguments or any(message.get("content") is None for message in prepared.messages):
        return
    if holds_spelled(prepared.messages) or holds_spelled(prepared.tools):
        return
    answer = ask_tokenizer(tokenizer, prepared, arguments, add_generation_prompt=add_generation_prompt)
    theirs = flat_ids(answer)
    if not np.array_equal(theirs, ids):
        same = min(len(theirs), len(ids))
        differs = np.flatnonzero(theirs[:same] != ids[:same])
        at = int(differs[0]) if differs.size else same
        message = (
            f"The tokenizer {tokenizer.name} renders this conversation to other ids than its own text encodes to "
            f"({len(theirs)} and {len(ids)}, first difference at {at}); it cannot be used for exact prompts."
        )
        raise TokensError("render_mismatch", message, "tokenizer")


def flat_ids(answer: Any) -> Ids:
    """One conversation's ids from whatever a tokenizer's version answers: a list, a nested list, an array, or a mapping."""
    if isinstance(answer, Mapping) or hasattr(answer, "input_ids"):
        answer = answer["input_ids"]
    array = np.asarray(answer.tolist() if hasattr(answer, "tolist") else answer)
    if array.ndim == 2 and array.shape[0] == 1:  # noqa: PLR2004  (a batch of one)
        array = array[0]
    return as_ids(array)
