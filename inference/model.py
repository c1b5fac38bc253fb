"""The base of every view model: what leaves a service is plain, frozen and closed."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class View(BaseModel):
    """A value for a person or a script; never a table row."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Page(View, Generic[T]):
    """One keyset page; `next` is the `after` of the following one, None at the end."""

    items: list[T]
    next: str | None = None
