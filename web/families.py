"""Token formats as their page shows them: markers by what they do, and how each family fits one tokenizer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.formats import BoundFormat, all_formats, bind
from inference.tokens.segmentation.roles import Role
from inference.tokens.suggestion import Suggestion, suggest
from inference.tokens.tokenizer import Tokenizer

_ROLES: Final[Mapping[int, str]] = {
    Role.THINK_OPEN: "opens",
    Role.THINK_CLOSE: "closes",
    Role.SECTION_BEGIN: "section begins",
    Role.CALL_BEGIN: "call begins",
    Role.SEPARATOR: "before arguments",
    Role.INNER: "inside a call",
    Role.CALL_END: "call ends",
    Role.SECTION_END: "section ends",
    Role.MESSAGE_START: "header begins",
    Role.CHANNEL: "names the channel",
    Role.MESSAGE_BODY: "body begins",
    Role.MESSAGE_END: "message ends",
    Role.SPEAKER: "begins a turn",
    Role.STOP: "ends the answer",
}
_MESSAGE = frozenset({Role.MESSAGE_START, Role.CHANNEL, Role.MESSAGE_BODY, Role.MESSAGE_END})
_THINK = frozenset({Role.THINK_OPEN, Role.THINK_CLOSE})
_GROUPS: Final = (
    ("reasoning", "Reasoning"),
    ("message", "Messages"),
    ("tool_call", "Tool calls"),
    ("turn", "Turns"),
    ("control", "Stops"),
)
_WHEN: Final[Mapping[str, str]] = {
    "always": "always",
    "by_template": "where the chat template knows the think block, unless the prompt closed it",
    "by_prompt": "where the prompt opened the think block, else not",
    "never": "never",
}


@dataclass(frozen=True, slots=True)
class Marker:
    """One delimiter. `state` says what it is in the tokenizer looked at: token, spelled, absent; empty where none is."""

    text: str
    role: str
    state: str = ""
    ids: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Delimiters of one subject; `kind` is the segment whose colour they have."""

    kind: str
    title: str
    markers: tuple[Marker, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """One declared format. `fit` is suggested, fits or refused, empty where no tokenizer is looked at."""

    name: str
    title: str
    groups: tuple[Group, ...]
    reasoning_due: str
    parsers: tuple[str, ...]
    spelled: tuple[str, ...]
    fit: str = ""
    refusal: str = ""
    remarks: tuple[str, ...] = ()
    """What is unusual, but for the spelled delimiters, which say so themselves"""


@dataclass(frozen=True, slots=True)
class Fitting:
    """All families beside one tokenizer: the suggested one first, then those that fit, then those that do not."""

    families: tuple[Family, ...]
    suggestion: Suggestion | None = None
    tokenizer: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


def declared() -> Fitting:
    """Every family as declared, `none` last."""
    return Fitting(tuple(_family(item) for item in all_formats()))


def fitted(name: str, tokenizer: Tokenizer) -> Fitting:
    """Every family with this tokenizer's ids, or the sentence that refuses it."""
    suggestion = suggest(tokenizer)
    order = {name: place for place, name in enumerate((suggestion.name, *suggestion.alternatives))}
    families = [_against(item, tokenizer, suggestion.name) for item in all_formats()]
    families.sort(key=lambda item: (item.fit == "refused", order.get(item.name, len(order)), item.name == "none"))
    counts = {fit: sum(item.fit == fit for item in families) for fit in ("fits", "refused")}
    return Fitting(tuple(families), suggestion, name, counts)


def _against(item: TokenFormat, tokenizer: Tokenizer, suggested: str) -> Family:
    try:
        bound = bind(item, tokenizer)
    except TokensError as error:
        return _family(item, tokenizer=tokenizer, fit="refused", refusal=error.message)
    return _family(item, bound, tokenizer, fit="suggested" if item.name == suggested else "fits")


def _family(
    item: TokenFormat,
    bound: BoundFormat | None = None,
    tokenizer: Tokenizer | None = None,
    *,
    fit: str = "",
    refusal: str = "",
) -> Family:
    found: dict[str, list[Marker]] = {}
    for text, role in item.delimiters():
        marker = _marker(text, _ROLES[role], bound, tokenizer)
        found.setdefault(_kind(item, text, role), []).append(marker)
    return Family(
        name=item.name,
        title=item.title,
        groups=tuple(Group(kind, title, tuple(found[kind])) for kind, title in _GROUPS if kind in found),
        reasoning_due=_WHEN[item.expects] if item.think or item.messages else "",
        parsers=item.reasoning_parsers,
        spelled=item.spelled,
        fit=fit,
        refusal=refusal,
        remarks=tuple(_remarks(item)),
    )


def _remarks(item: TokenFormat) -> Iterator[str]:
    if item.think and not item.think.required:
        yield "Some of its models do not think and have no token for the think block."
    if item.calls and item.calls.end is None:
        yield "The next call, or the stop, ends a call."
    if item.calls and item.calls.bare:
        yield "A call may come without its begin marker at the beginning of an answer."
    if item.suffixed:
        yield "A marker's token may carry a suffix: <think:name> stands for <think>."


def _kind(item: TokenFormat, text: str, role: int) -> str:
    if role in _THINK:
        return "reasoning"
    if role in _MESSAGE or (item.messages is not None and text == item.messages.constrain):
        return "message"
    return {Role.SPEAKER: "turn", Role.STOP: "control"}.get(role, "tool_call")


def _marker(text: str, role: str, bound: BoundFormat | None, tokenizer: Tokenizer | None) -> Marker:
    if tokenizer is None:
        return Marker(text, role)
    number = bound.ids.get(text) if bound else tokenizer.id_of(text)
    if number is not None:
        return Marker(text, role, "token", str(number))
    if bound and text in bound.spelled:
        return Marker(text, role, "spelled", " ".join(map(str, bound.spelled[text])))
    return Marker(text, role, "absent")
