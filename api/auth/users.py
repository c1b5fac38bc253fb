"""Users: made, changed, sent away. Nobody is deleted: what they judged stays theirs, and the last admin stays admin."""

from sqlmodel import Session, col, select

from api.auth import links, sessions, tokens
from api.auth.identity import ROLES, Role
from db.errors import Conflict, Invalid, NotFound
from db.tables import User
from db.types import now

MAX_NAME = 80


def list_users(session: Session) -> list[User]:
    """All of them, by name."""
    return list(session.exec(select(User).order_by(User.name)).all())


def get_user(session: Session, user_id: int) -> User:
    """One.

    Raises:
        NotFound: no such user.
    """
    user = session.get(User, user_id)
    if user is None:
        raise NotFound("user", user_id)
    return user


def user_named(session: Session, name: str) -> User | None:
    """The user of that name."""
    return session.exec(select(User).where(User.name == name)).first()


def create_user(session: Session, name: str, role: str) -> User:
    """A new user, who cannot come in before a token or a log-in link is made.

    Raises:
        Invalid: a bad name or role.
        Conflict: the name is taken.
    """
    user = User(name=_free_name(session, name), role=_known_role(role))
    session.add(user)
    session.flush()
    return user


def change_user(
    session: Session, user_id: int, *, name: str | None = None, role: str | None = None, disabled: bool | None = None
) -> User:
    """Rename, give another role, disable or enable; None leaves a thing as it is.

    A disabled user's sessions end, their tokens are revoked and their log-in links spent: enabling brings nothing back.

    Raises:
        NotFound: no such user.
        Invalid: a bad name or role.
        Conflict: the name is taken, or no admin would be left.
    """
    admins = _active_admins(session)
    user = get_user(session, user_id)
    if name is not None and name.strip() != user.name:
        user.name = _free_name(session, name)
    if role is not None:
        user.role = _known_role(role)
    if disabled is False:
        user.disabled_at = None
    if disabled is True:
        user.disabled_at = user.disabled_at or now()
        tokens.revoke_all(session, user_id)
        sessions.end_all(session, user_id)
        links.drop_all(session, user_id)
    remains_admin = user.role == "admin" and user.disabled_at is None
    if admins == {user_id} and not remains_admin:
        raise Conflict("last_admin", f"{user.name} is the last admin: make somebody else admin first.", field="role")
    session.add(user)
    session.flush()
    return user


def _active_admins(session: Session) -> set[int]:
    """Locked until the transaction ends, so that two admins cannot each take away the other."""
    query = select(User).where(User.role == "admin", col(User.disabled_at).is_(None)).with_for_update()
    return {user.id for user in session.exec(query).all() if user.id is not None}


def _known_role(role: str) -> Role:
    for known in ROLES:
        if role == known:
            return known
    raise Invalid("role_unknown", f"A role is one of {', '.join(ROLES)}, not {role!r}.", field="role")


def _free_name(session: Session, name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or "," in name:
        raise Invalid("name_invalid", f"A name has 1 to {MAX_NAME} printable characters and no comma.", field="name")
    if user_named(session, name) is not None:
        raise Conflict("name_taken", f"There is a user {name!r} already (perhaps disabled).", field="name")
    return name
