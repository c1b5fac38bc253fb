"""A rendered conversation as its page shows it: tokens turn by turn, each warning at the message it is about."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from inference.quality.flags import FLAG_CODES
from inference.tokens.errors import TokensError
from inference.tokens.formats import BoundFormat, bind, get_format
from inference.tokens.pieces import Piece, pieces
from inference.tokens.rendering import Rendering, render
from inference.tokens.segmentation.roles import Role
from inference.tokens.suggestion import suggest
from inference.tokens.tokenizer import Tokenizer
from web import sample, strip

_PLACE = re.compile(r"messages\[(\d{1,6})\]")
_FIELDS: Final = ("messages", "tools", "chat_template_kwargs", "role_map")
_GRAVEST: Final = ("error", "warning", "info")
_THINK: Final[Mapping[str, str]] = {
    "open": "The prompt opens the think block: the answer begins inside reasoning.",
    "closed": "The prompt closes the think block: no reasoning is due.",
    "off": "A word in the conversation switches reasoning off: none is due.",
    "none": "The prompt leaves the think block alone",
}


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of the render. `message` is the number of the message it is about, None where it is about the whole."""

    code: str
    severity: str
    text: str
    message: int | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message as it was given, with what there is to say of it."""

    number: int
    message: sample.Message
    warnings: tuple[Warned, ...]

    @property
    def severity(self) -> str:
        """The gravest of its warnings, empty where it has none."""
        return next((name for name in _GRAVEST if any(w.severity == name for w in self.warnings)), "")


@dataclass(frozen=True, slots=True)
class Shown:
    """What came out of a render."""

    strip: Markup
    count: int
    ids: str
    text: str
    token_format: str
    think: str
    warnings: tuple[Warned, ...]
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class _Range:
    kind: str
    start: int
    end: int


def shown(
    tokenizer: Tokenizer,
    messages: Sequence[Any],
    tools: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    token_format: str = "",
    role_map: Mapping[str, str] | None = None,
) -> Shown:
    """The conversation rendered as a run would, and laid out for reading; `token_format` is the suggested one where left out.

    Raises `TokensError` as `render` and `bind` do.
    """
    declared = get_format(token_format or suggest(tokenizer).name)
    bound = bind(declared, tokenizer)
    rendered = render(tokenizer, messages, tools, kwargs, token_format=declared, role_map=role_map)
    found = (warned(item.code, item.message, item.where) for item in rendered.warnings)
    warnings = tuple(sorted(found, key=lambda item: _GRAVEST.index(item.severity)))
    given = turns(messages, warnings)
    drawn = pieces(tokenizer, rendered.ids)
    cited = [(at, at + 1, "k") for at in _spelled(given, rendered.text, drawn)]
    ids = rendered.ids.tolist()
    return Shown(
        strip=strip.strip(drawn, list(_turn_ranges(bound, ids)), prefix="p", flagged=cited),
        count=len(ids),
        ids=", ".join(map(str, ids)),
        text=rendered.text,
        token_format=declared.name,
        think=_think(bound, rendered),
        warnings=warnings,
        turns=given,
    )


def warned(code: str, text: str, message: int | None) -> Warned:
    """A warning with its severity."""
    known = FLAG_CODES.get(code)
    return Warned(code, known.severity if known else "warning", text, message)


def failed_at(messages: Sequence[Any], error: Exception) -> tuple[Turn, ...]:
    """The message that a render failed at, where the error says which."""
    place = _PLACE.match(error.field or "") if isinstance(error, TokensError) else None
    return tuple(turn for turn in turns(messages, ()) if place and turn.number == int(place[1]))


def turns(messages: Sequence[Any], warnings: Sequence[Warned]) -> tuple[Turn, ...]:
    """The messages in order, each with its warnings."""
    whole = [item if isinstance(item, dict) else {"role": "?", "content": item} for item in messages]
    about: dict[int | None, list[Warned]] = defaultdict(list)
    for item in warnings:
        about[item.message].append(item)
    return tuple(
        Turn(number, message, tuple(about.get(number, ()))) for number, message in enumerate(sample.messages(whole))
    )


def at_field(errors: Mapping[str, str], error: Exception) -> dict[str, str]:
    """Errors by form field: a place inside a field (`messages[2].content`) is told at that field."""
    placed = {next((name for name in _FIELDS if key.startswith(name)), key): text for key, text in errors.items()}
    if isinstance(error, TokensError) and not placed:
        return {"messages": error.message}
    return placed


def _think(bound: BoundFormat, rendered: Rendering) -> str:
    if not bound.thinks:
        return ""
    state = bound.prompt_state(rendered.ids)
    told = _THINK.get(state, "")
    if state != "none":
        return told
    due = bound.expects_reasoning(state)
    return f"{told}; reasoning is {'due' if due else 'not due' if due is False else 'perhaps due'}."


def _turn_ranges(bound: BoundFormat, ids: Sequence[int]) -> Iterator[_Range]:
    """The prompt cut before every marker that begins a turn."""
    roles = (Role.SPEAKER, Role.MESSAGE_START)
    begins = {bound.ids[text] for text, role in bound.format.delimiters() if role in roles and text in bound.ids}
    start = 0
    for at, number in enumerate(ids):
        if number in begins and at > start:
            yield _Range("prompt", start, at)
            start = at
    if start < len(ids):
        yield _Range("prompt", start, len(ids))


def _spelled(given: Sequence[Turn], text: str, drawn: Sequence[Piece]) -> Iterator[int]:
    """The control tokens that a message's own text became, where it can be told which these are."""
    if not drawn or drawn[-1].end != len(text):
        return
    cursor = 0
    for turn in given:
        wording = (turn.message.text or "").strip()
        at = text.find(wording, cursor) if wording else -1
        if at < 0:
            continue
        cursor = at + len(wording)
        if any(item.code == "control_in_prompt" for item in turn.warnings):
            yield from (
                piece.index for piece in drawn if piece.kind in {"special", "added"} and at <= piece.start < cursor
            )
