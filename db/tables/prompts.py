"""What was uploaded, kept verbatim, and the prompts read from it."""

from datetime import datetime
from typing import Any

from sqlalchemy import Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from db.types import Big, Json, UtcTime, now


class PromptSet(SQLModel, table=True):
    """One upload."""

    __tablename__ = "prompt_sets"
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(max_length=200)
    state: str = Field(default="reading", max_length=16)
    """reading, ready or failed"""
    message: str = Field(default="", sa_type=Text)
    file_name: str = Field(default="", max_length=255)
    file_path: str = Field(default="", max_length=1000)
    """Where the verbatim upload lies, below the data directory."""
    file_format: str = Field(default="", max_length=40)
    size_bytes: int = Field(default=0, sa_type=Big)
    sha256: str = Field(default="", max_length=64)
    accepted: int = 0
    rejected: int = 0
    warnings: int = 0
    categories: dict[str, Any] = Field(default_factory=dict, sa_type=Json)
    """{category: count}"""
    created_by: int | None = Field(default=None, foreign_key="users.id", ondelete="SET NULL")
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class Prompt(SQLModel, table=True):
    """One row of an upload; its body is beside it in `prompt_bodies`."""

    __tablename__ = "prompts"
    __table_args__ = (UniqueConstraint("prompt_set_id", "line"),)
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    prompt_set_id: int = Field(foreign_key="prompt_sets.id", ondelete="CASCADE")
    line: int
    """1-based line of a line format, row of a table, item of an array"""
    source_id: str = Field(max_length=300)
    """The upload's own id, or `line-N`"""
    category: str = Field(default="", max_length=120)
    preview: str = Field(default="", max_length=240)
    """The last user message's beginning"""


class PromptBody(SQLModel, table=True):
    """A prompt's messages and tools, as JSON text: key order and number spelling are the upload's."""

    __tablename__ = "prompt_bodies"
    prompt_id: int = Field(primary_key=True, foreign_key="prompts.id", ondelete="CASCADE", sa_type=Big)
    messages: str = Field(sa_type=Text)
    tools: str | None = Field(default=None, sa_type=Text)


class PromptError(SQLModel, table=True):
    """A row that was refused (severity error) or taken with a notice (severity warning)."""

    __tablename__ = "prompt_errors"
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    prompt_set_id: int = Field(foreign_key="prompt_sets.id", index=True, ondelete="CASCADE")
    line: int
    severity: str = Field(default="error", max_length=16)
    code: str = Field(max_length=60)
    message: str = Field(sa_type=Text)
