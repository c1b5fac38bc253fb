"""What routes ask for, as annotated aliases; pages and REST use the same.

A write session commits when the handler returns and *before* the answer is sent (`scope="function"`): a failed commit is an
error, never a 200. It is opened after the body was read and the caller is known, and a handler that raises rolls it back.
How to use them, in this order of parameters:

    @router.post("/runs/{run_id}/pause")
    def pause(run_id: Id, user: Operator, session: WriteSession, audit: Audit) -> RunView: ...

`RequestFilter` is the filter grammar in the query string; `limit`, `after`, `view` and the other names in `NOT_FILTER` are
left to the route. `Upload` is a file being received; see `api.uploads`.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from sqlmodel import Session

from api.auth import audit as audit_log
from api.auth.identity import Identity, Role, allows
from api.uploads import IncomingFile, open_upload
from db.errors import Forbidden
from db.filters import Filter, parse_query
from inference.context import Context
from inference.settings import Settings

WRITERS = 8
"""Write requests that may wait for the database at once. Each holds a thread; were all threads to wait, the one that holds
the lock could not run to release it."""

NOT_FILTER = frozenset(
    {
        "limit",
        "after",
        "view",
        "t",
        "seg",
        "attempt",
        "pieces",
        "tail",
        "from",
        "cols",
        "next",
        "saved",
        "left",
        "right",
        "tok",
    }
)


def context(request: Request) -> Context:
    """What the composition root made."""
    made: Context = request.app.state.context
    return made


Ctx = Annotated[Context, Depends(context)]


def settings(ctx: Ctx) -> Settings:
    """The operator's settings."""
    return ctx.settings


AppSettings = Annotated[Settings, Depends(settings)]


async def current_user(request: Request) -> Identity:
    """Who is asking (the gate let nobody else through).

    An upload's multipart form is received up to its file here in a cookie session, since its CSRF token is a field before that.

    Raises:
        Forbidden: the form does not carry the session's CSRF token.
        Invalid: the form has no file: forms without one are sent urlencoded.
    """
    if request.state.csrf_pending:
        await open_upload(request)
    identity: Identity = request.state.identity
    return identity


CurrentUser = Annotated[Identity, Depends(current_user)]


def _at_least(needed: Role) -> Callable[[Identity], Identity]:
    def check(user: CurrentUser) -> Identity:
        if not allows(user.role, needed):
            raise Forbidden(
                "role_needed", f"This needs the role {needed}; {user.name} is {user.role}. An admin can change it."
            )
        return user

    check.__name__ = f"needs_{needed}"
    return check


Reviewer = Annotated[Identity, Depends(_at_least("reviewer"))]
Operator = Annotated[Identity, Depends(_at_least("operator"))]
Admin = Annotated[Identity, Depends(_at_least("admin"))]


def read_session(ctx: Ctx) -> Iterator[Session]:
    """A session that only reads."""
    with ctx.db.read() as session:
        yield session


def write_session(ctx: Ctx, user: CurrentUser) -> Iterator[Session]:  # noqa: ARG001  (nobody unknown takes the write lock)
    """A session that commits before the answer is sent."""
    with ctx.db.write() as session:
        yield session


ReadSession = Annotated[Session, Depends(read_session, scope="function")]
WriteSession = Annotated[Session, Depends(write_session, scope="function", max_concurrency=WRITERS)]


class Auditor:
    """Notes deeds of this request's caller in this request's transaction."""

    def __init__(self, session: Session, user: Identity) -> None:
        self._session, self._user = session, user

    def __call__(self, action: str, subject: str, **detail: Any) -> None:
        """Note `action` (noun.verb) on `subject` (noun/id)."""
        audit_log.record(self._session, self._user, action, subject, detail)


def auditor(session: WriteSession, user: CurrentUser) -> Auditor:
    """The audit log, for this request."""
    return Auditor(session, user)


Audit = Annotated[Auditor, Depends(auditor, scope="function")]


def request_filter(request: Request) -> Filter:
    """The filter in the query string.

    Raises:
        db.errors.Invalid: an unknown field or a bad value, by name.
    """
    return parse_query((name, value) for name, value in request.query_params.multi_items() if name not in NOT_FILTER)


RequestFilter = Annotated[Filter, Depends(request_filter)]

Upload = Annotated[IncomingFile, Depends(open_upload)]

Id = Annotated[int, Path(ge=1, le=2**31 - 1)]
BigId = Annotated[int, Path(ge=1, le=2**63 - 1)]
"""A sample's; PostgreSQL refuses to compare a narrow column with a number that it cannot hold."""
Limit = Annotated[int, Query(ge=1, le=500, description="Items per page.")]
After = Annotated[str | None, Query(description="The `next` of the page before.")]
PAGE = 50
"""Default of `Limit`: `limit: Limit = PAGE`."""
