"""The families, one file each, found by being here; and which of them fits a vocabulary."""

import importlib
import pkgutil
from functools import cache
from typing import NamedTuple

from inference.tokens.binding import BoundFormat
from inference.tokens.binding import bind as bind
from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.tokenizer import Tokenizer

__all__ = ["BoundFormat", "Suggestion", "TokenFormat", "all_formats", "bind", "get_format", "suggest"]


class Suggestion(NamedTuple):
    """A format's name, and why it, in a sentence."""

    name: str
    reason: str


@cache
def all_formats() -> tuple[TokenFormat, ...]:
    """Every declared family, by name; `none` last."""
    found: list[TokenFormat] = [
        importlib.import_module(f"{__name__}.{module.name}").FORMAT for module in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted(found, key=lambda item: (item.name == "none", item.name)))


def get_format(name: str) -> TokenFormat:
    """The family of that name. Raises `TokensError("format_unknown")`, listing those there are."""
    for item in all_formats():
        if item.name == name:
            return item
    known = ", ".join(item.name for item in all_formats())
    raise TokensError("format_unknown", f"There is no token format {name}; there are {known}.", "token_format")


def suggest(tokenizer: Tokenizer) -> Suggestion:
    """The format whose telling tokens this vocabulary has, the most telling first; `none` with the reason where none does."""
    for item in sorted(all_formats(), key=lambda item: -len(item.signature)):
        if item.signature and all(tokenizer.id_of(marker) is not None for marker in item.signature):
            return Suggestion(item.name, f"Its vocabulary has {_listed(item.signature)} as single tokens.")
    return Suggestion("none", "Its vocabulary has the markers of no known family as single tokens.")


def _listed(markers: tuple[str, ...]) -> str:
    return ", ".join(markers[:-1]) + f" and {markers[-1]}" if len(markers) > 1 else markers[0]
