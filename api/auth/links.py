"""One-time log-in links: for a demo, or for a colleague without a token."""

from datetime import timedelta

from sqlalchemy import delete, update
from sqlmodel import Session, col, select

from api.auth.secrets import fingerprint, new_secret
from db.tables import LoginLink, User
from db.types import now


def create_login_link(session: Session, user_id: int, ttl: timedelta) -> str:
    """A code for `/login?code=…` that works once, within `ttl`; spent and stale ones are swept away."""
    session.execute(delete(LoginLink).where(col(LoginLink.expires_at) < now()))
    code = new_secret()
    session.add(LoginLink(user_id=user_id, code_hash=fingerprint(code), expires_at=now() + ttl))
    session.flush()
    return code


def drop_all(session: Session, user_id: int) -> None:
    """No link of this user works any more."""
    session.execute(delete(LoginLink).where(col(LoginLink.user_id) == user_id))


def redeem(session: Session, code: str) -> User | None:
    """Spend a code: its user, or None if it is unknown, spent, stale or its user disabled. Two callers cannot both win."""
    spent = session.execute(
        update(LoginLink)
        .where(
            col(LoginLink.code_hash) == fingerprint(code),
            col(LoginLink.used_at).is_(None),
            col(LoginLink.expires_at) > now(),
        )
        .values(used_at=now())
        .returning(col(LoginLink.user_id))
    ).scalar_one_or_none()
    if spent is None:
        return None
    return session.exec(select(User).where(User.id == spent, col(User.disabled_at).is_(None))).first()
