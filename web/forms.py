"""Forms as people fill them: dotted names to nested values, blanks left out, and faults back to the field they belong to."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData

from db.errors import DomainError, Invalid
from inference.tokens.errors import TokensError
from inference.tokens.numbers import as_spelled, as_whole

Model = TypeVar("Model", bound=BaseModel)

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

REFUSALS = (DomainError, TokensError, ValidationError)
"""What a form's page shows beside the form, instead of an error page."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The text fields of an urlencoded form, in order."""

    items: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str:
        """The last value, stripped; empty where there is none."""
        return next((value.strip() for key, value in reversed(self.items) if key == name), "")

    def text(self, name: str) -> str:
        """The last value as it was typed, with the line ends that people see (browsers send CR LF)."""
        value = next((value for key, value in reversed(self.items) if key == name), "")
        return value.replace("\r\n", "\n").replace("\r", "\n")

    def all(self, name: str) -> list[str]:
        """Every value."""
        return [value for key, value in self.items if key == name]

    def values(self) -> dict[str, str]:
        """Last values by name, to fill the form again; without the CSRF token."""
        return {name: value for name, value in self.items if name != "csrf"}

    def tree(self, names: Iterable[str]) -> dict[str, Any]:
        """The named fields nested by their dots; blank ones are left out."""
        tree: dict[str, Any] = {}
        for name in names:
            value = self.get(name)
            if not value:
                continue
            branch = tree
            *path, leaf = name.split(".")
            for part in path:
                branch = branch.setdefault(part, {})
            branch[leaf] = value
        return tree

    def integer(self, name: str) -> int | None:
        """A whole number; None where the field is blank.

        Raises:
            Invalid: `not_a_number`.
        """
        value = self.get(name)
        if not value:
            return None
        if not (value.removeprefix("-").isascii() and value.removeprefix("-").isdecimal() and len(value) < 19):  # noqa: PLR2004
            raise Invalid("not_a_number", f"{name} takes a whole number, not {value[:40]!r}.", field=name)
        return int(value)

    def json(self, name: str, kind: type[dict[Any, Any]] | type[list[Any]], *, exact: bool = False) -> Any:
        """A JSON object or array; None where the field is blank. `exact`: numbers keep their digits, for a template to print.

        Raises:
            Invalid: `not_json`.
        """
        value = self.get(name)
        if not value:
            return None
        what = "object" if kind is dict else "array"
        try:
            if exact:
                read = json.loads(value, parse_float=as_spelled, parse_int=as_whole)
            else:
                read = json.loads(value, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            raise Invalid("not_json", f"{name} is not JSON{where}: it takes a JSON {what}.", field=name) from error
        if not isinstance(read, kind):
            raise Invalid("not_json", f"{name} takes a JSON {what}.", field=name)
        if "\\u" in value and not _storable(read):
            raise Invalid(
                "not_json", f"{name} holds U+0000 or half a surrogate pair, which cannot be stored.", field=name
            )
        return read


def _storable(value: object) -> bool:
    """Whether every text in it can be stored and shown. Walks without recursion: depth is the sender's choice."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and _UNSTORABLE.search(item):
            return False
    return True


def _finite(text: str) -> float:
    """A number that JSON can say again: not NaN, not infinity, not 1e400."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


async def read_form(request: Request) -> Fields:
    """The form that was sent.

    Raises:
        Invalid: `text_unstorable`, by the field's name.
    """
    form: FormData = await request.form()
    items = tuple((name, value) for name, value in form.multi_items() if isinstance(value, str))
    for name, value in items:
        if _UNSTORABLE.search(value):
            raise Invalid("text_unstorable", f"{name} holds U+0000, which no text here can: take it out.", field=name)
    return Fields(items)


Form = Annotated[Fields, Depends(read_form)]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a form was not taken: the sentence above it, the sentences at its fields, and the status to answer with."""

    message: str
    status: int = 422
    errors: Mapping[str, str] = field(default_factory=dict)


def refusal(error: Exception, prefix: str = "") -> Refusal:
    """One of `REFUSALS` as the form shows it; `prefix` is put before pydantic's field names."""
    if isinstance(error, DomainError):
        return Refusal(error.message, error.status, {error.field: error.message} if error.field else {})
    if isinstance(error, TokensError):
        return Refusal(error.message, 422, {error.field: error.message} if error.field else {})
    if isinstance(error, ValidationError):
        found = {
            prefix + ".".join(str(part) for part in item["loc"]): str(item["msg"]).removeprefix("Value error, ")
            for item in error.errors(include_url=False)
        }
        name, text = next(iter(found.items()))
        more = f" ({len(found) - 1} more below)" if len(found) > 1 else ""
        return Refusal(f"{name}: {text}.{more}" if name else f"{text}.", 422, found)
    raise TypeError(type(error).__name__)
