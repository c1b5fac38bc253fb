"""From a prompt's messages to the exact ids that are sent, ahead of the sending, with every refusal named.

Rendering and encoding cost milliseconds where sending costs microseconds, so it is done once a prompt, in a thread, before
the sample's turn comes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from db.idstore import Ids
from inference.prompts.service import PromptData
from inference.quality.checks.check import first_few
from inference.quality.flags import Flag, flag
from inference.runs.settings import RunSettings
from inference.tokens.errors import TokensError
from inference.tokens.rendering import Rendering, render
from inference.tokens.tokenizer import Tokenizer

FATAL_WARNINGS: Final = frozenset({"content_lost"})
"""A prompt that lost part of what was uploaded would train on an answer to something else: unless the run says so, it is not
sent."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt ready to be sent (`error_code` None), or the reason it never will be."""

    ids: Ids
    tools: list[dict[str, Any]] | None
    flags: tuple[Flag, ...] = ()
    error_code: str | None = None
    error: str | None = None


def render_body(tokenizer: Tokenizer, settings: RunSettings, body: PromptData) -> Rendering:
    """A prompt's conversation as the run renders it.

    Raises:
        TokensError: the template raised, or a message is not one it can take.
    """
    return render(
        tokenizer,
        body.messages,
        body.tools,
        settings.chat_template_kwargs,
        token_format=settings.token_format,
        role_map=settings.role_map,
    )


def prompt_flags(rendered: Rendering, off: Collection[str] = ()) -> tuple[Flag, ...]:
    """The renderer's warnings as flags of the prompt, but for the codes in `off`.

    A range of the prompt is no range of the output, so none is cited. Of each code the first few: a long conversation may have
    one for each of its messages, and every sample of it would keep them all.
    """
    found = (flag(warning.code, None, None, warning.message) for warning in rendered.warnings)
    return tuple(first_few([item for item in found if item.code not in off]))


def prepare(tokenizer: Tokenizer, settings: RunSettings, body: PromptData | None) -> Prompted:
    """Render one prompt and check that it may be sent.

    A template that raises, content that got lost (unless the run wants such prompts sent), an id outside the vocabulary (one
    such id kills a whole SGLang server) and a prompt longer than the context each become a named error.
    """
    none = np.empty(0, dtype=np.uint32)
    if body is None:
        return Prompted(
            none, None, error_code="prompt_missing", error="The prompt's body is no longer in the database."
        )
    try:
        rendered = render_body(tokenizer, settings, body)
    except TokensError as error:
        return Prompted(none, body.tools, error_code=error.code, error=error.message)
    ids = np.ascontiguousarray(rendered.ids, dtype=np.uint32)
    flags = prompt_flags(rendered, settings.checks_off)
    code, message = _refusal(ids, flags, settings)
    return Prompted(ids, body.tools, flags, code, message)


def _refusal(ids: Ids, flags: tuple[Flag, ...], settings: RunSettings) -> tuple[str | None, str | None]:
    if settings.render_faults == "skip":
        for found in flags:
            if found.code in FATAL_WARNINGS:
                return found.code, found.message
    if not len(ids):
        return (
            "prompt_empty",
            "The chat template made no tokens of this prompt: look at its messages and at chat_template_kwargs.",
        )
    worst = int(ids.max())
    if worst >= settings.vocab_size:
        where = int(ids.argmax())
        return (
            "prompt_id_out_of_vocabulary",
            (
                f"Prompt token {where:,} has id {worst:,}, outside the model's vocabulary of {settings.vocab_size:,}: "
                "sending it would stop the server. Name the model's own tokenizer."
            ),
        )
    if len(ids) > settings.max_prompt_tokens:
        return (
            "prompt_too_long",
            (
                f"The prompt has {len(ids):,} tokens; at most {settings.max_prompt_tokens:,} fit the context of "
                f"{settings.context_length:,}. Shorten the prompt, or run it on a server with a longer context_length."
            ),
        )
    return None, None


def prepare_all(
    tokenizer: Tokenizer, settings: RunSettings, bodies: Mapping[int, PromptData], prompt_ids: Sequence[int]
) -> dict[int, Prompted]:
    """Render each distinct prompt once; {prompt id: Prompted}."""
    return {number: prepare(tokenizer, settings, bodies.get(number)) for number in dict.fromkeys(prompt_ids)}
