"""Column types that behave the same on SQLite and PostgreSQL."""

import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Integer
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

Big = BigInteger().with_variant(Integer(), "sqlite")
"""64-bit key: SQLite autoincrements only a column declared INTEGER."""

Json = JSON().with_variant(JSONB(), "postgresql")


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time; SQLite drops the zone, so it is put back on reading.

    Raises:
        ValueError: on a naive datetime, which would be stored as something it is not.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  (SQLAlchemy's signature)
        """What is stored: the same moment in UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value!r}: use db.types.now()")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002  (SQLAlchemy's signature)
        """What is read: aware, in UTC."""
        if value is None:
            return None
        if not isinstance(value, datetime):
            raise TypeError(f"{value!r} came from a time column")
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text as both databases can keep it: NUL and lone surrogates, which a model may well produce, become U+FFFD."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
