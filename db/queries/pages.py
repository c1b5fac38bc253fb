"""Keyset pages: a cursor says after which row to go on, so a page costs the same at row 50 and at row 900,000."""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import orjson
from sqlalchemy.orm import Mapped
from sqlmodel import Session
from sqlmodel.sql.expression import SelectOfScalar

from db.errors import Invalid

LARGEST_PAGE = 500
_LONGEST_CURSOR = 2_000
_LARGEST_ID = 2**63 - 1

CursorValue = int | str | None


class HasId(Protocol):
    """A table row with an integer key."""

    id: int | None


Row = TypeVar("Row", bound=HasId)
Item = TypeVar("Item")


def encode_cursor(values: Sequence[CursorValue]) -> str:
    """An opaque `after` for a URL."""
    return base64.urlsafe_b64encode(orjson.dumps(list(values))).rstrip(b"=").decode()


def decode_cursor(text: str, length: int) -> list[CursorValue]:
    """The `length` values of a cursor that `encode_cursor` made; none of its integers exceeds 64 bits.

    Raises:
        Invalid: `bad_cursor`, field `after`.
    """
    if len(text) > _LONGEST_CURSOR or not text.isascii():
        raise bad_cursor()
    try:
        values = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError) as error:
        raise bad_cursor() from error
    if not isinstance(values, list) or len(values) != length or not all(map(_is_cursor_value, values)):
        raise bad_cursor()
    return values


def bad_cursor() -> Invalid:
    """The error for an `after` that no page of this list gave."""
    return Invalid(
        "bad_cursor", "This cursor is not one that this list gave; start again without `after`.", field="after"
    )


def checked_limit(limit: int) -> int:
    """The page size, if it is one.

    Raises:
        Invalid: `bad_limit`, field `limit`: not within 1…500.
    """
    if not 1 <= limit <= LARGEST_PAGE:
        raise Invalid("bad_limit", f"limit goes from 1 to {LARGEST_PAGE}, not {limit}.", field="limit")
    return limit


def page_by_id(
    s: Session,
    statement: SelectOfScalar[Row],
    id_column: Mapped[Any],
    after: str | None,
    limit: int,
    *,
    descending: bool = False,
) -> tuple[list[Row], str | None]:
    """One page of rows (each with an `id`) by their integer key; `statement` brings the conditions, not the order.

    Raises:
        Invalid: `bad_cursor` or `bad_limit`.
    """
    checked_limit(limit)
    if after is not None:
        (position,) = decode_cursor(after, 1)
        if not isinstance(position, int):
            raise bad_cursor()
        statement = statement.where(id_column < position if descending else id_column > position)
    rows = list(s.exec(statement.order_by(id_column.desc() if descending else id_column).limit(limit + 1)))
    more = len(rows) > limit
    return rows[:limit], encode_cursor([rows[limit - 1].id]) if more else None


def page_of_few(
    items: Iterable[Item], order: Callable[[Item], tuple[int | str, ...]], after: str | None, limit: int
) -> tuple[list[Item], str | None]:
    """One page of a list that is short enough to be read whole, in the order of `order`, which no two items share.

    Raises:
        Invalid: `bad_cursor` or `bad_limit`.
    """
    checked_limit(limit)
    found = sorted(((order(item), item) for item in items), key=lambda pair: pair[0])
    if after is not None and found:
        shape = [type(value) for value in found[0][0]]
        position = tuple(decode_cursor(after, len(shape)))
        if [type(value) for value in position] != shape:
            raise bad_cursor()
        found = [pair for pair in found if pair[0] > position]
    more = len(found) > limit
    return [item for _, item in found[:limit]], encode_cursor(found[limit - 1][0]) if more else None


def _is_cursor_value(value: object) -> bool:
    if value is None or isinstance(value, str):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_ID
