"""Who is asking, and the ladder of roles."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["reviewer", "operator", "admin"]
ROLES: tuple[Role, ...] = ("reviewer", "operator", "admin")
"""Each may do what the one before may: reviewers read and judge, operators start processes and launch runs, admins manage users."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of one request.

    `via` says how they came in; `csrf` is the token their forms must carry (empty for a bearer token, which no other site
    can send on their behalf); `session_id` is the web session to end at log-out.
    """

    id: int
    name: str
    role: str
    via: Literal["token", "session"]
    csrf: str = ""
    session_id: int | None = None


def allows(role: str, needed: str) -> bool:
    """Whether `role` reaches `needed`; a role nobody knows reaches nothing, and nobody reaches it."""
    ladder: tuple[str, ...] = ROLES
    return role in ladder and needed in ladder and ladder.index(role) >= ladder.index(needed)
