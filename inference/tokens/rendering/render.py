"""A conversation to exact prompt ids, by the model's own chat template.

The template makes text, and the text is encoded with nothing added: what the template writes is all there is, so no second BOS
can slip in. That this equals what the tokenizer itself would have made of the conversation is verified, not assumed.
"""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.formats import get_format
from inference.tokens.ids import Ids, as_ids
from inference.tokens.numbers import holds_spelled
from inference.tokens.rendering.arguments import DATE_KEY, check_arguments, check_tools_text, read_arguments
from inference.tokens.rendering.checks import Rendered, check_render
from inference.tokens.rendering.messages import prepare
from inference.tokens.rendering.templates import Message, Prepared, ask_tokenizer, read_source, run_template
from inference.tokens.rendering.wants import find_wants
from inference.tokens.rendering.warning import RenderWarning
from inference.tokens.suggestion import suggest
from inference.tokens.tokenizer import Tokenizer

__all__ = ["RenderWarning", "Rendering", "flat_ids", "render"]

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
    role_map: Mapping[str, str] | None = None,
) -> Rendering:
    """The conversation as prompt ids.

    `kwargs` are the template's own arguments (`enable_thinking`, …). A template that writes the date takes it from
    `strftime_now` there, an ISO date ("2026-11-30"): without it the ids differ from day to day, which is warned of.
    `token_format` (default: the one suggested) says what the family's markers are, and how it wants a call's arguments and a
    missing content where its template takes them either way. `role_map` renders roles that the template does not know under the
    name of one it knows ({"developer": "system"}); without it they are lost, which is warned of.

    Raises `TokensError`: `no_chat_template`, `template_failed` (with the template's own sentence), `bad_message`,
    `unsupported_part`, `bad_tools`, `bad_template_kwargs`, `render_mismatch`.
    """
    if tokenizer.template is None:
        message = (
            f"The tokenizer {tokenizer.name} has no chat template, and none is used in its place: put the model's "
            "chat_template.jinja into its folder, or name a tokenizer of the same vocabulary that has one."
        )
        raise TokensError("no_chat_template", message, "tokenizer")
    declared = (
        token_format if isinstance(token_format, TokenFormat) else get_format(token_format or suggest(tokenizer).name)
    )
    given = kwargs or {}
    arguments = read_arguments(given)
    prepared, warnings = prepare(find_wants(tokenizer, declared), messages, tools, role_map)
    text = run_template(tokenizer, prepared, arguments, add_generation_prompt=add_generation_prompt)
    ids = _encode(tokenizer, text)
    if tokenizer.renders_verified < _VERIFIED_RENDERS or not tokenizer.is_fast:
        _verify(tokenizer, prepared, arguments, ids, add_generation_prompt=add_generation_prompt)
        tokenizer.renders_verified += 1

    def other(changed: Prepared, with_arguments: Mapping[str, Any]) -> str | None:
        try:
            return run_template(tokenizer, changed, with_arguments, add_generation_prompt=add_generation_prompt)
        except TokensError:
            return None  # a template may refuse what it is only asked for a check

    def again(changed: Sequence[Message], changed_tools: list[dict[str, Any]] | None) -> str | None:
        return other(Prepared(list(changed), changed_tools), arguments)

    source = read_source(tokenizer, prepared.tools)
    warnings += check_arguments(tokenizer, given, source, text, lambda kwargs: other(prepared, read_arguments(kwargs)))
    if prepared.tools:
        warnings += check_tools_text(tokenizer, declared, given)
    wording = source.wording if source else tokenizer.template
    rendered = Rendered(tokenizer, declared, prepared, text, ids, again, wording, declared.tools_argument in given)
    return Rendering(ids, text, tuple(dict.fromkeys([*warnings, *check_render(rendered)])))


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
