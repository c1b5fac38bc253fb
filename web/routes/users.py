"""Users, for admins: who there is, a new one, a new token (shown once)."""

from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.auth import audit, create_token, users
from api.deps import Admin, Ctx, Id
from db.errors import Conflict
from inference.context import Context
from web.forms import REFUSALS, Fields, Form, Refusal, refusal
from web.shell import Twin, page

router = APIRouter(prefix="/users")


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user in the list."""

    id: int
    name: str
    role: str
    disabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made: whose, and the secret that nobody can read again."""

    name: str
    secret: str


@router.get("")
def list_users(request: Request, _: Admin, ctx: Ctx) -> Response:
    """Everybody, and the form for a new one."""
    return _page(request, ctx, Fields(), Refusal("", 200), None)


@router.post("")
def create_user(request: Request, admin: Admin, ctx: Ctx, form: Form) -> Response:
    """A new user with a token, shown on the answer and never again (so this one answer is not a redirect)."""
    try:
        with ctx.db.write() as session:
            user = users.create_user(session, form.get("name"), form.get("role"))
            assert user.id is not None  # noqa: S101  (flushed)
            _, secret = create_token(session, user.id, "made with the user")
            audit.record(session, admin, "user.create", f"user/{user.id}", {"name": user.name, "role": user.role})
            made = NewToken(user.name, secret)
    except REFUSALS as error:
        return _page(request, ctx, form, refusal(error), None)
    return _page(request, ctx, Fields(), Refusal("", 201), made)


@router.post("/{user_id}/token")
def new_token(request: Request, user_id: Id, admin: Admin, ctx: Ctx) -> Response:
    """Another token for a user, shown once."""
    with ctx.db.write() as session:
        user = users.get_user(session, user_id)
        if user.disabled_at is not None:
            raise Conflict("user_disabled", f"{user.name} is disabled: enable them first.", allowed=["enable"])
        _, secret = create_token(session, user_id, "made on the users page")
        audit.record(session, admin, "token.create", f"user/{user_id}")
        made = NewToken(user.name, secret)
    return _page(request, ctx, Fields(), Refusal("", 201), made)


def _page(request: Request, ctx: Context, form: Fields, refused: Refusal, token: NewToken | None) -> Response:
    with ctx.db.read() as session:
        rows = [
            UserRow(user.id or 0, user.name, user.role, user.disabled_at is not None, user.created_at)
            for user in users.list_users(session)
        ]
    view = {
        "users": rows,
        "token": token,
        "values": form.values(),
        "errors": refused.errors,
        "problem": refused.message,
        "twin": Twin("/api/v1/users"),
    }
    return page(request, "users.html", view, status=refused.status)
