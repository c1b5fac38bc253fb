"""Bearer tokens: made, found, revoked; and the first admin's."""

from datetime import datetime, timedelta

from sqlalchemy import update
from sqlmodel import Session, col, select

from api.auth.identity import Identity
from api.auth.secrets import fingerprint, new_secret
from db.engine import Database
from db.tables import AccessToken, User
from db.types import now
from inference.settings import Settings

ADMIN_NAME = "admin"
SETTINGS_LABEL = "settings"
MIN_ADMIN_TOKEN = 16
USE_NOTED_EVERY = timedelta(minutes=10)


def create_token(session: Session, user_id: int, label: str = "") -> tuple[AccessToken, str]:
    """A new token of a user: its row, and the secret that nobody can read again."""
    secret = new_secret("dm_")
    row = AccessToken(user_id=user_id, token_hash=fingerprint(secret), label=label)
    session.add(row)
    session.flush()
    return row, secret


def identity_of_token(session: Session, secret: str) -> tuple[Identity, AccessToken] | None:
    """Whose token this is; None for an unknown or revoked one, or a disabled user's."""
    found = session.exec(
        select(AccessToken, User)
        .join(User, col(User.id) == AccessToken.user_id)
        .where(
            AccessToken.token_hash == fingerprint(secret),
            col(AccessToken.revoked_at).is_(None),
            col(User.disabled_at).is_(None),
        )
    ).first()
    if found is None:
        return None
    token, user = found
    assert user.id is not None  # noqa: S101  (read from the database)
    return Identity(user.id, user.name, user.role, "token"), token


def use_is_stale(token: AccessToken, at: datetime) -> bool:
    """Whether the time of last use should be noted again (not at every request: it is a write)."""
    return token.last_used_at is None or at - token.last_used_at > USE_NOTED_EVERY


def note_use(db: Database, token_id: int, at: datetime) -> None:
    """Remember when a token was last used, to the nearest minutes."""
    with db.write() as session:
        session.execute(update(AccessToken).where(col(AccessToken.id) == token_id).values(last_used_at=at))


def revoke_all(session: Session, user_id: int) -> None:
    """No token of this user works any more."""
    session.execute(
        update(AccessToken)
        .where(col(AccessToken.user_id) == user_id, col(AccessToken.revoked_at).is_(None))
        .values(revoked_at=now())
    )


def ensure_admin(session: Session, settings: Settings) -> str | None:
    """See that an admin can come in.

    With `DRAFTMILL_ADMIN_TOKEN` set, that token is the admin's, and a former one from the settings stops working. Without,
    a token is made if no admin has a live one.

    Returns:
        The secret if one was made here: the only time that it can be shown.

    Raises:
        ValueError: the token in the settings is too short to withstand guessing.
    """
    admin = session.exec(select(User).where(User.name == ADMIN_NAME)).first()
    if admin is None:
        admin = User(name=ADMIN_NAME, role="admin")
        session.add(admin)
        session.flush()
    assert admin.id is not None  # noqa: S101  (flushed)
    if settings.admin_token is not None:
        _adopt(session, admin.id, settings.admin_token.get_secret_value())
        return None
    live = session.exec(
        select(AccessToken.id)
        .join(User, col(User.id) == AccessToken.user_id)
        .where(User.role == "admin", col(User.disabled_at).is_(None), col(AccessToken.revoked_at).is_(None))
        .limit(1)
    ).first()
    if live is not None:
        return None
    admin.role, admin.disabled_at = "admin", None
    return create_token(session, admin.id, "first start")[1]


def _adopt(session: Session, admin_id: int, secret: str) -> None:
    if len(secret) < MIN_ADMIN_TOKEN:
        raise ValueError(f"DRAFTMILL_ADMIN_TOKEN is shorter than {MIN_ADMIN_TOKEN} characters: choose a longer one.")
    wanted = fingerprint(secret)
    rows = session.exec(select(AccessToken).where(AccessToken.label == SETTINGS_LABEL)).all()
    for row in rows:
        if row.token_hash != wanted and row.revoked_at is None:
            row.revoked_at = now()
    present = session.exec(select(AccessToken).where(AccessToken.token_hash == wanted)).first()
    if present is None:
        session.add(AccessToken(user_id=admin_id, token_hash=wanted, label=SETTINGS_LABEL))
    else:
        present.revoked_at = None
    admin = session.get_one(User, admin_id)
    admin.role, admin.disabled_at = "admin", None
