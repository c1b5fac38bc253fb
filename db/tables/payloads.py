"""The id store's side table, used where the database is PostgreSQL (see `db.idstore`)."""

from sqlalchemy import LargeBinary
from sqlmodel import Field, SQLModel

from db.types import Big


class Payload(SQLModel, table=True):
    """The ids of one attempt as a compact blob; no list ever reads this table."""

    __tablename__ = "payloads"
    run_id: int = Field(primary_key=True)
    sample_id: int = Field(primary_key=True, sa_type=Big)
    attempt: int = Field(primary_key=True)
    blob: bytes = Field(sa_type=LargeBinary)
