"""The arguments a person gives to a chat template: refused where they cannot be given, warned of where they do not do what they say."""

import datetime as dt
import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.rendering.templates import Source, has_own_code
from inference.tokens.rendering.warning import RenderWarning
from inference.tokens.tokenizer import Tokenizer

DATE_KEY: Final = "strftime_now"
_RESERVED: Final = frozenset(
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
_MEANT: Final[Mapping[Any, bool]] = {
    **dict.fromkeys(("true", "yes", "on", "1", 1), True),
    **dict.fromkeys(("false", "no", "off", "0", 0), False),
}
"""What people write for true and false. `1 == True` as a key, so real truth values are taken out before they are looked up"""
_SPELLED: Final = frozenset({"true", "false"})

Render = Callable[[Mapping[str, Any]], str | None]


def read_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the template takes them, the date among them as the function that templates call.

    Raises `TokensError("bad_template_kwargs")` for one that is set for every render, and for a date that is none.
    """
    for key in given:
        if key in _RESERVED:
            message = f"chat_template_kwargs.{key} cannot be given: it is set for every render."
            raise TokensError("bad_template_kwargs", message, f"chat_template_kwargs.{key}")
    return {key: _clock(value) if key == DATE_KEY else value for key, value in given.items()}


def _clock(given: Any) -> Any:
    try:
        moment = dt.datetime.fromisoformat(given)
    except (TypeError, ValueError) as error:
        field = f"chat_template_kwargs.{DATE_KEY}"
        raise TokensError("bad_template_kwargs", f"{field} must be an ISO date like 2026-11-30.", field) from error
    return moment.strftime


def check_arguments(
    tokenizer: Tokenizer, given: Mapping[str, Any], source: Source | None, text: str, render: Render
) -> Iterator[RenderWarning]:
    """What a person should know of the arguments given, or left out.

    `text` is the render with them; `render` makes it again with others (None: the template refuses).
    """
    for key, value in given.items():
        if source is not None and key not in source.names:
            near = difflib.get_close_matches(key, source.names - {"messages"}, 1, 0.8)
            hint = f" Is {near[0]} meant?" if near else ""
            told = f"chat_template_kwargs.{key} changes nothing: the chat template does not read it.{hint}"
            yield RenderWarning("kwarg_unused", told)
        elif key != DATE_KEY:
            yield from _wrong_type(key, value, text, partial(_with, given, key, render))
    if DATE_KEY not in given and DATE_KEY in (tokenizer.template or ""):
        told = f"The template writes today's date; set chat_template_kwargs.{DATE_KEY} to an ISO date to keep the ids the same."
        yield RenderWarning("date_in_prompt", told)


def _with(given: Mapping[str, Any], key: str, render: Render, value: Any) -> str | None:
    return render({**given, key: value})


def _wrong_type(key: str, value: Any, text: str, render: Callable[[Any], str | None]) -> Iterator[RenderWarning]:
    """A switch given as something else than true or false.

    `"false"` counts as true in a template, and 0 is not false to one that asks `is false`: whether a value has the effect that its
    writer meant is seen from what true and false themselves render to.
    """
    name = f"chat_template_kwargs.{key}"
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(value, str) and word in _SPELLED:
        told = f"{name} is the text “{value}”, which counts as true in a template; give true or false."
        yield RenderWarning("kwarg_type", told)
    elif isinstance(word, str | int) and not isinstance(word, bool) and word in _MEANT:
        if text == render(not _MEANT[word]) != render(_MEANT[word]):
            wanted = str(_MEANT[word]).lower()
            yield RenderWarning("kwarg_type", f"{name} is {value!r}, which the template does not take for {wanted}.")
    elif value is None and text == render(False) != render(True):
        yield RenderWarning(
            "kwarg_type", f"{name} is null, which the template takes for false; leave it out, or give true or false."
        )


def check_tools_text(tokenizer: Tokenizer, declared: TokenFormat, given: Mapping[str, Any]) -> Iterator[RenderWarning]:
    """Where the family's own code would have written the tools and did not run."""
    name = declared.tools_argument
    if name and name in (tokenizer.template or "") and name not in given and not has_own_code(tokenizer.backend):
        message = (
            f"The template writes the tools in its own way, not as this model's tokenizer code does ({name}). Let that code run "
            f"(DRAFTMILL_ALLOW_REMOTE_CODE=true), or give its text as chat_template_kwargs.{name}."
        )
        yield RenderWarning("tool_text_unofficial", message)
