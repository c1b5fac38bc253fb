"""Any-of, for lists of any length: one parameter instead of thousands, past SQLite's limit of 32,766."""

from collections.abc import Collection
from typing import Any

import orjson
from sqlalchemy import BigInteger, ColumnElement, Text, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import col

_FEW = 100


def any_of(column: Any, values: Collection[int] | Collection[str], *, sqlite: bool) -> ColumnElement[bool]:
    """`column IN (values)` for all-text or all-integer values; a long list travels as one JSON text or array."""
    listed = list(values)
    if len(listed) <= _FEW:
        return col(column).in_(listed)
    if sqlite:
        each = func.json_each(literal(orjson.dumps(listed).decode(), Text)).table_valued("value")
        return col(column).in_(select(each.c.value))
    item = Text() if isinstance(listed[0], str) else BigInteger()
    return col(column) == any_(literal(listed, ARRAY(item)))
