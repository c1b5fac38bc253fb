"""The families, one file each, found by being here."""

import importlib
import pkgutil
from functools import cache

from inference.tokens.binding import BoundFormat
from inference.tokens.binding import bind as bind
from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError

__all__ = ["BoundFormat", "TokenFormat", "all_formats", "bind", "get_format"]


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
