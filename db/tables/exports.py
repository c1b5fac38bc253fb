"""Exports: a filter, a target format, files and a manifest."""

from datetime import datetime
from typing import Any

from sqlalchemy import Text
from sqlmodel import Field, SQLModel

from db.types import Json, UtcTime, now


class Export(SQLModel, table=True):
    """One export job; its files lie below the data directory under `exports/{id}/`."""

    __tablename__ = "exports"
    id: int | None = Field(default=None, primary_key=True)
    run_id: int = Field(foreign_key="runs.id", index=True, ondelete="CASCADE")
    format: str = Field(max_length=40)
    filter: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    options: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    state: str = Field(default="queued", max_length=16)
    """queued, writing, done, failed"""
    message: str = Field(default="", sa_type=Text)
    counts: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    files: list[dict[str, Any]] = Field(default_factory=list, sa_type=Json)
    """[{name, bytes, sha256, rows}]"""
    created_by: int | None = Field(default=None, foreign_key="users.id", ondelete="SET NULL")
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcTime)
