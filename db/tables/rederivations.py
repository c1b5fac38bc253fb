"""Making a run's segments and flags again from its ids: each such job is a row that says how far it is."""

from datetime import datetime
from typing import Any

from sqlalchemy import Text
from sqlmodel import Field, SQLModel

from db.types import Big, Json, UtcTime, now


class Rederivation(SQLModel, table=True):
    """One job. `done`, `position` and the samples it has gone over move in one transaction, so a killed worker goes on exactly there."""

    __tablename__ = "rederivations"
    id: int | None = Field(default=None, primary_key=True)
    run_id: int = Field(foreign_key="runs.id", index=True, ondelete="CASCADE")
    state: str = Field(default="queued", max_length=16, index=True)
    """queued, running, done, failed"""
    token_format: str | None = Field(default=None, max_length=60)
    """The format to read the ids by from now on; None: the one the run had"""
    position: int = Field(default=0, sa_type=Big)
    """Id of the last sample gone over"""
    total: int = 0
    done: int = 0
    before: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    """{flag code: samples that had it}"""
    after: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    error: str = Field(default="", sa_type=Text)
    created_by: int | None = Field(default=None, foreign_key="users.id", ondelete="SET NULL")
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcTime)
