"""Who may come in, how, and what they did."""

from datetime import datetime
from typing import Any

from sqlalchemy import Text
from sqlmodel import Field, SQLModel

from db.types import Big, Json, UtcTime, now


class User(SQLModel, table=True):
    """A person or a script, by name."""

    __tablename__ = "users"
    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=80)
    role: str = Field(max_length=16)
    """reviewer, operator or admin; each may do what the one before may."""
    disabled_at: datetime | None = Field(default=None, sa_type=UtcTime)
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)


class AccessToken(SQLModel, table=True):
    """A bearer token; only its SHA-256 is kept (it is random, so a fast hash is enough)."""

    __tablename__ = "access_tokens"
    id: int | None = Field(default=None, primary_key=True)
    user_id: int = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    token_hash: str = Field(unique=True, max_length=64)
    label: str = Field(default="", max_length=80)
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcTime)


class LoginLink(SQLModel, table=True):
    """A log-in URL that works once and not for long."""

    __tablename__ = "login_links"
    id: int | None = Field(default=None, primary_key=True)
    user_id: int = Field(foreign_key="users.id", ondelete="CASCADE")
    code_hash: str = Field(unique=True, max_length=64)
    expires_at: datetime = Field(sa_type=UtcTime)
    used_at: datetime | None = Field(default=None, sa_type=UtcTime)


class WebSession(SQLModel, table=True):
    """A browser that is logged in; the cookie's SHA-256, and the token its forms carry."""

    __tablename__ = "web_sessions"
    id: int | None = Field(default=None, primary_key=True)
    user_id: int = Field(foreign_key="users.id", index=True, ondelete="CASCADE")
    cookie_hash: str = Field(unique=True, max_length=64)
    csrf_token: str = Field(max_length=64)
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
    expires_at: datetime = Field(sa_type=UtcTime)


class AuditEntry(SQLModel, table=True):
    """Who did what to which thing, and when."""

    __tablename__ = "audit_entries"
    id: int | None = Field(default=None, primary_key=True, sa_type=Big)
    at: datetime = Field(default_factory=now, sa_type=UtcTime, index=True)
    user_id: int | None = Field(default=None, foreign_key="users.id", ondelete="SET NULL")
    user_name: str = Field(default="", max_length=80)
    action: str = Field(max_length=60)
    subject: str = Field(default="", max_length=120)
    detail: dict[str, Any] = Field(default_factory=dict, sa_type=Json)


class IdempotencyKey(SQLModel, table=True):
    """The answer already given to a POST that carried an Idempotency-Key."""

    __tablename__ = "idempotency_keys"
    user_id: int = Field(primary_key=True, foreign_key="users.id", ondelete="CASCADE")
    key: str = Field(primary_key=True, max_length=255)
    request_hash: str = Field(max_length=64)
    """SHA-256 of method, path and body: the same key with another request is refused."""
    status: int | None = None
    """None while the first request is still being worked on."""
    body: str | None = Field(default=None, sa_type=Text)
    created_at: datetime = Field(default_factory=now, sa_type=UtcTime)
