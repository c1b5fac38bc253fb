"""Which family a model is of, judged by what its folder shows: tokens, chat template, config. Never by its name."""

from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from inference.tokens.errors import TokensError
from inference.tokens.formats import all_formats, bind
from inference.tokens.tokenizer import Tokenizer

_suggested: "WeakKeyDictionary[Tokenizer, Suggestion]" = WeakKeyDictionary()


class Suggestion(NamedTuple):
    """A format's name, why it, in a sentence, and which others fit as well, the likeliest first."""

    name: str
    reason: str
    alternatives: tuple[str, ...] = ()


class _Candidate(NamedTuple):
    """A format that fits: whether the config names its model type, how many signs speak for it, and the reason in words."""

    of_type: bool
    signs: int
    name: str
    reason: str


def suggest(tokenizer: Tokenizer) -> Suggestion:
    """The format that fits best; `none` with the reason where none does.

    A format fits where its telling tokens are single ids, and its telling texts stand in the chat template. A model type in the
    config goes before any number of signs.
    """
    known = _suggested.get(tokenizer)
    if known is None:
        known = _suggested[tokenizer] = _suggest(tokenizer)
    return known


def _suggest(tokenizer: Tokenizer) -> Suggestion:
    found = sorted(_candidates(tokenizer), key=lambda item: (not item.of_type, -item.signs, item.name))
    if not found:
        return Suggestion("none", "Its vocabulary has the markers of no known family as single tokens.")
    return Suggestion(found[0].name, found[0].reason, tuple(item.name for item in found[1:]))


def _candidates(tokenizer: Tokenizer) -> Iterator[_Candidate]:
    model_type = tokenizer.model_config.get("model_type")
    template = tokenizer.template or ""
    for item in all_formats():
        of_type = isinstance(model_type, str) and model_type in item.model_types
        if not (item.signature or item.template_signs or of_type):
            continue
        if not of_type and item.template_signs and not all(sign in template for sign in item.template_signs):
            continue
        try:
            bound = bind(item, tokenizer)
        except TokensError:
            continue
        reasons = []
        if of_type:
            reasons.append(f"its config names the model type {model_type}")
        if item.signature:
            reasons.append(f"its vocabulary has {_listed(item.signature)} as single tokens")
        signs = [sign for sign in item.template_signs if sign in template]
        if signs:
            reasons.append(f"its chat template has {_listed(signs)}")
        reason = f"{'; '.join(reasons)}."
        yield _Candidate(
            of_type,
            len(item.signature) + len(signs),
            item.name,
            " ".join([reason[0].upper() + reason[1:], *bound.remarks]),
        )


def _listed(markers: tuple[str, ...] | list[str]) -> str:
    return ", ".join(markers[:-1]) + f" and {markers[-1]}" if len(markers) > 1 else markers[0]
