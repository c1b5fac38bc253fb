"""What people said about samples. Each judges the attempt they saw: a new attempt starts unjudged."""

from datetime import datetime

from sqlalchemy import Index, Text
from sqlmodel import Field, SQLModel

from db.types import Big, UtcTime, now


class Tag(SQLModel, table=True):
    """A word for a fault, with a number key that never changes."""

    __tablename__ = "tags"
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=60)
    key: int | None = Field(default=None, unique=True)
    """1…10: the number key on the sample page (10 is `0`)"""
    created_by: int | None = Field(default=None, foreign_key="users.id", ondelete="SET NULL")
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class SampleTag(SQLModel, table=True):
    """A tag on an attempt, by a person; two people may set the same one."""

    __tablename__ = "sample_tags"
    __table_args__ = (
        Index("ix_sample_tags_run_tag", "run_id", "tag_id", "sample_id"),
        Index("ix_sample_tags_run_user", "run_id", "user_id", "sample_id"),
    )
    sample_id: int = Field(primary_key=True, foreign_key="samples.id", ondelete="CASCADE", sa_type=Big)
    attempt: int = Field(primary_key=True)
    tag_id: int = Field(primary_key=True, foreign_key="tags.id", ondelete="CASCADE")
    user_id: int = Field(primary_key=True, foreign_key="users.id", ondelete="CASCADE")
    run_id: int = Field(foreign_key="runs.id", ondelete="CASCADE")
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class Review(SQLModel, table=True):
    """One person's word on one attempt."""

    __tablename__ = "reviews"
    __table_args__ = (
        Index("ix_reviews_run_verdict", "run_id", "verdict", "sample_id"),
        Index("ix_reviews_run_user", "run_id", "user_id", "sample_id"),
    )
    sample_id: int = Field(primary_key=True, foreign_key="samples.id", ondelete="CASCADE", sa_type=Big)
    attempt: int = Field(primary_key=True)
    user_id: int = Field(primary_key=True, foreign_key="users.id", ondelete="CASCADE")
    run_id: int = Field(foreign_key="runs.id", ondelete="CASCADE")
    verdict: str | None = Field(default=None, max_length=16)
    """good, bad, unsure or None (a note alone)"""
    note: str = Field(default="", sa_type=Text)
    version: int = 1
    """Grows with each save; `If-Match` compares it"""
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    updated_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class Comment(SQLModel, table=True):
    """A remark on a sample, or on a token range of its output."""

    __tablename__ = "comments"
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    sample_id: int = Field(foreign_key="samples.id", index=True, ondelete="CASCADE", sa_type=Big)
    attempt: int = 0
    user_id: int | None = Field(default=None, foreign_key="users.id", ondelete="SET NULL")
    start: int | None = None
    end: int | None = None
    body: str = Field(sa_type=Text)
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
