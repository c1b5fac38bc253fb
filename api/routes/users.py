"""Me, users, their tokens and log-in links."""

from datetime import timedelta

from fastapi import Request, Response
from sqlmodel import col, select

from api.auth import links, tokens, users
from api.deps import PAGE, Admin, After, Audit, CurrentUser, Id, Limit, ReadSession, WriteSession
from api.etags import check_match, etag_of
from api.jsonbody import make_router
from api.schemas import Me, NewToken, NewUser, ShownLink, ShownToken, TokenView, UserChanges, UserView
from db.errors import Conflict, NotFound
from db.queries.pages import page_by_id, page_of_few
from db.tables import AccessToken, User
from db.types import now
from inference.model import Page

router = make_router(tag="users")

LINK_TTL = timedelta(hours=24)
SHOWN_ONCE = "X-Shown-Once"
"""Marks an answer that is kept nowhere (`api.idempotency` looks for it)."""


@router.get("/me")
def me(user: CurrentUser) -> Me:
    """Who I am."""
    return Me(id=user.id, name=user.name, role=user.role, via=user.via, csrf=user.csrf)


@router.get("/users")
def list_users(_: Admin, session: ReadSession, limit: Limit = PAGE, after: After = None) -> Page[UserView]:
    """All users, by name."""
    rows, following = page_of_few(users.list_users(session), lambda user: (user.name,), after, limit)
    return Page(items=[_view(user) for user in rows], next=following)


@router.post("/users", status_code=201)
def create_user(_: Admin, body: NewUser, session: WriteSession, audit: Audit) -> UserView:
    """A new user; make a token or a log-in link next."""
    user = users.create_user(session, body.name, body.role)
    audit("user.create", f"user/{user.id}", name=user.name, role=user.role)
    return _view(user)


@router.get("/users/{user_id}")
def get_user(_: Admin, user_id: Id, session: ReadSession, response: Response) -> UserView:
    """One, as they stand."""
    user = users.get_user(session, user_id)
    response.headers["ETag"] = _etag(user)
    return _view(user)


@router.patch("/users/{user_id}")
def change_user(
    _: Admin,
    user_id: Id,
    body: UserChanges,
    request: Request,
    session: WriteSession,
    audit: Audit,
    response: Response,
) -> UserView:
    """Rename, give another role, disable or enable."""
    check_match(request, _etag(users.get_user(session, user_id)))
    user = users.change_user(session, user_id, name=body.name, role=body.role, disabled=body.disabled)
    audit("user.change", f"user/{user_id}", **body.model_dump(exclude_none=True))
    response.headers["ETag"] = _etag(user)
    return _view(user)


@router.delete("/users/{user_id}", status_code=204)
def disable_user(_: Admin, user_id: Id, request: Request, session: WriteSession, audit: Audit) -> Response:
    """Send a user away: nothing of theirs works any more; what they judged stays theirs."""
    check_match(request, _etag(users.get_user(session, user_id)))
    users.change_user(session, user_id, disabled=True)
    audit("user.disable", f"user/{user_id}")
    return Response(status_code=204)


@router.get("/users/{user_id}/tokens")
def list_tokens(
    _: Admin, user_id: Id, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[TokenView]:
    """A user's tokens, without their secrets."""
    users.get_user(session, user_id)
    query = select(AccessToken).where(AccessToken.user_id == user_id)
    rows, following = page_by_id(session, query, col(AccessToken.id), after, limit)
    return Page(items=[_token_view(row) for row in rows], next=following)


@router.post("/users/{user_id}/tokens", status_code=201)
def create_token(
    _: Admin, user_id: Id, session: WriteSession, audit: Audit, response: Response, body: NewToken | None = None
) -> ShownToken:
    """A new token, shown this once."""
    _enabled(users.get_user(session, user_id))
    row, secret = tokens.create_token(session, user_id, body.label if body else "")
    audit("token.create", f"user/{user_id}", label=row.label)
    response.headers[SHOWN_ONCE] = "true"
    assert row.id is not None  # noqa: S101  (flushed)
    return ShownToken(id=row.id, label=row.label, token=secret, created_at=row.created_at)


@router.delete("/users/{user_id}/tokens/{token_id}", status_code=204)
def revoke_token(_: Admin, user_id: Id, token_id: Id, session: WriteSession, audit: Audit) -> Response:
    """This token works no more."""
    row = session.get(AccessToken, token_id)
    if row is None or row.user_id != user_id:
        raise NotFound("token", token_id)
    row.revoked_at = row.revoked_at or now()
    audit("token.revoke", f"user/{user_id}", token=token_id)
    return Response(status_code=204)


@router.post("/users/{user_id}/login-link", status_code=201)
def create_login_link(_: Admin, user_id: Id, session: WriteSession, audit: Audit, response: Response) -> ShownLink:
    """A log-in link that works once, within a day."""
    _enabled(users.get_user(session, user_id))
    expires_at = now() + LINK_TTL
    code = links.create_login_link(session, user_id, LINK_TTL)
    audit("login_link.create", f"user/{user_id}")
    response.headers[SHOWN_ONCE] = "true"
    return ShownLink(path=f"/login?code={code}", expires_at=expires_at)


def _enabled(user: User) -> None:
    if user.disabled_at is not None:
        raise Conflict("user_disabled", f"{user.name} is disabled: enable them first.", allowed=["enable"])


def _etag(user: User) -> str:
    return etag_of(user.id, user.name, user.role, user.disabled_at is not None)


def _view(user: User) -> UserView:
    assert user.id is not None  # noqa: S101  (read from the database, or flushed)
    return UserView(
        id=user.id, name=user.name, role=user.role, disabled=user.disabled_at is not None, created_at=user.created_at
    )


def _token_view(row: AccessToken) -> TokenView:
    assert row.id is not None  # noqa: S101  (read from the database)
    return TokenView(
        id=row.id,
        label=row.label,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked=row.revoked_at is not None,
    )
