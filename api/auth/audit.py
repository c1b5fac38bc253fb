"""Who did what to which thing: written in the transaction of the deed, so that neither stands without the other."""

from typing import Any

from sqlmodel import Session

from api.auth.identity import Identity
from db.tables import AuditEntry


def record(
    session: Session, identity: Identity, action: str, subject: str, detail: dict[str, Any] | None = None
) -> None:
    """Note a deed.

    Args:
        session: the write session of the deed.
        identity: who.
        action: noun.verb, as `run.launch`.
        subject: noun/id, as `run/12`.
        detail: what else a reader of the log needs; no secrets.
    """
    session.add(
        AuditEntry(user_id=identity.id, user_name=identity.name, action=action, subject=subject, detail=detail or {})
    )
