"""The orders in which samples are listed, and how to go on from a place in one.

An order is a key and then the id, both the same way round. Samples without a key (no length yet) come last, either way
round, as a stretch of their own: so each stretch is one walk along one index, on both databases, whatever they think of
NULL.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, tuple_
from sqlalchemy.orm import Mapped
from sqlmodel import col

from db.queries.pages import CursorValue, bad_cursor, decode_cursor, encode_cursor
from db.tables import Sample

Key = int | datetime | None
Column = Mapped[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sample stands in an order, whether or not the sample is (still) inside a filter."""

    key: Key
    id: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a list that one index walk yields: its conditions and its order."""

    conditions: tuple[ColumnElement[bool], ...]
    order: tuple[ColumnElement[Any], ...]


class Order:
    """One of the sorts of `db.filters.SORTS`."""

    def __init__(self, sort: str) -> None:
        self.sort = sort
        self.descending = sort.startswith("-")
        self.field = sort.removeprefix("-")
        self._id = col(Sample.id)
        keys: dict[str, Column | None] = {
            "id": None,
            "len": col(Sample.completion_tokens),
            "updated": col(Sample.updated_at),
        }
        self._key = keys[self.field]
        self._nullable = self.field == "len"

    def place(self, sample: Sample) -> Place:
        """Where the sample stands."""
        if sample.id is None:
            raise ValueError("the sample is not stored")
        key: Key = {"id": None, "len": sample.completion_tokens, "updated": sample.updated_at}[self.field]
        return Place(key, sample.id)

    def cursor(self, sample: Sample) -> str:
        """The `after` of the page that follows the sample."""
        place = self.place(sample)
        key = place.key.isoformat() if isinstance(place.key, datetime) else place.key
        return encode_cursor([self.sort, key, place.id])

    def read_cursor(self, text: str) -> Place:
        """The place a cursor of this order names.

        Raises:
            Invalid: `bad_cursor`: not a cursor, or one of another order.
        """
        sort, key, number = decode_cursor(text, 3)
        if sort != self.sort or not isinstance(number, int):
            raise bad_cursor()
        return Place(self._read_key(key), number)

    def stretches(self, after: Place | None, *, backwards: bool = False) -> list[Stretch]:
        """What follows a place (all, where None), in the order's direction or against it: to be walked one after another."""
        descending = self.descending != backwards
        if self._key is None:
            return [self._by_id(after, descending)]
        keyed = (self._key.is_not(None),) if self._nullable else ()
        has_key = after is None or after.key is not None
        with_key = Stretch(
            (*keyed, *([] if after is None else [self._beyond(after, descending)])),
            (_direction(self._key, descending), _direction(self._id, descending)),
        )
        if not self._nullable:
            return [with_key]
        whole = Stretch(keyed, with_key.order)
        without = self._by_id(None if has_key else after, descending)
        without = Stretch((self._key.is_(None), *without.conditions), without.order)
        if backwards:
            return [with_key] if has_key and after is not None else [without, whole]
        return [with_key, without] if has_key else [without]

    def _by_id(self, after: Place | None, descending: bool) -> Stretch:
        conditions = () if after is None else (self._id < after.id if descending else self._id > after.id,)
        return Stretch(conditions, (_direction(self._id, descending),))

    def _beyond(self, after: Place, descending: bool) -> ColumnElement[bool]:
        here = tuple_(self._key, self._id)
        there = tuple_(after.key, after.id)
        return here < there if descending else here > there

    def _read_key(self, key: CursorValue) -> Key:
        if self.field == "updated" and isinstance(key, str):
            try:
                at = datetime.fromisoformat(key)
            except ValueError as error:
                raise bad_cursor() from error
            if at.tzinfo is not None:
                return at.astimezone(UTC)
        if self.field == "len" and (key is None or isinstance(key, int)):
            return key
        if self.field == "id" and key is None:
            return None
        raise bad_cursor()


def _direction(column: Column, descending: bool) -> ColumnElement[Any]:
    return column.desc() if descending else column.asc()
