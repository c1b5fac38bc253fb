"""Browser sessions: a cookie, and the CSRF token its forms carry."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete
from sqlmodel import Session, col, select
from starlette.requests import HTTPConnection
from starlette.responses import Response

from api.auth.identity import Identity
from api.auth.secrets import fingerprint, new_secret
from db.tables import User, WebSession
from db.types import now

COOKIE = "draftmill_session"
LIFETIME = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class StartedSession:
    """A session just begun: the cookie's value is known here alone."""

    cookie: str
    csrf: str


def start_session(session: Session, user_id: int) -> StartedSession:
    """Log a user's browser in; sessions that ran out are swept away meanwhile."""
    session.execute(delete(WebSession).where(col(WebSession.expires_at) < now()))
    started = StartedSession(cookie=new_secret(), csrf=new_secret())
    session.add(
        WebSession(
            user_id=user_id,
            cookie_hash=fingerprint(started.cookie),
            csrf_token=started.csrf,
            expires_at=now() + LIFETIME,
        )
    )
    session.flush()
    return started


def identity_of_cookie(session: Session, cookie: str) -> Identity | None:
    """Whose session this is; None for an unknown or expired one, or a disabled user's."""
    found = session.exec(
        select(WebSession, User)
        .join(User, col(User.id) == WebSession.user_id)
        .where(
            WebSession.cookie_hash == fingerprint(cookie),
            col(WebSession.expires_at) > now(),
            col(User.disabled_at).is_(None),
        )
    ).first()
    if found is None:
        return None
    web, user = found
    assert user.id is not None  # noqa: S101  (read from the database)
    return Identity(user.id, user.name, user.role, "session", csrf=web.csrf_token, session_id=web.id)


def end_session(session: Session, session_id: int) -> None:
    """Log one browser out."""
    session.execute(delete(WebSession).where(col(WebSession.id) == session_id))


def end_all(session: Session, user_id: int) -> None:
    """Log a user out everywhere."""
    session.execute(delete(WebSession).where(col(WebSession.user_id) == user_id))


def set_cookie(response: Response, connection: HTTPConnection, started: StartedSession) -> None:
    """Give the browser its cookie: out of scripts' reach, not sent along by other sites' forms, encrypted where we are."""
    response.set_cookie(
        COOKIE,
        started.cookie,
        max_age=int(LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=connection.url.scheme == "https",
        path="/",
    )


def clear_cookie(response: Response, connection: HTTPConnection) -> None:
    """Take it back."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=connection.url.scheme == "https")
