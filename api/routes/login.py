"""Coming in by browser: with a token, or with a link that works once; and going out."""

from dataclasses import replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from starlette.responses import RedirectResponse

from api.auth import audit, links, sessions, tokens
from api.auth.identity import Identity
from api.auth.pages import LoginForm, draw, local_path
from api.auth.throttle import FailureThrottle
from api.deps import Ctx, CurrentUser, WriteSession
from inference.context import Context

router = APIRouter(include_in_schema=False)

Field = Annotated[str, Form(max_length=500)]
NextField = Annotated[str, Form(alias="next", max_length=2000)]
NextQuery = Annotated[str, Query(alias="next", max_length=2000)]


@router.get("/login")
def show_login(
    request: Request,
    code: Annotated[str, Query(max_length=500)] = "",
    target: NextQuery = "/",
) -> Response:
    """The log-in page; with `code`, a button that spends it."""
    return draw(request, LoginForm(code=code, next=local_path(target)))


@router.post("/login")
def log_in(request: Request, ctx: Ctx, token: Field = "", code: Field = "", target: NextField = "/") -> Response:
    """Check the token or spend the code, begin a session, and go on to `next`."""
    throttle: FailureThrottle = request.app.state.throttle
    address = request.client.host if request.client else ""
    form = LoginForm(code=code, next=local_path(target))
    wait_s = throttle.wait_s(address)
    if wait_s:
        refused = draw(
            request, replace(form, error=f"Too many failed log-ins from here: wait {wait_s} seconds.", status=429)
        )
        refused.headers["Retry-After"] = str(wait_s)
        return refused
    started = _begin(ctx, token.strip(), code.strip())
    if started is None:
        throttle.failed(address)
        error = (
            "This link was used already or is too old: ask for another."
            if code
            else "This token is unknown or was revoked."
        )
        return draw(request, replace(form, code="", error=error, status=401))
    response = RedirectResponse(form.next, 303)
    sessions.set_cookie(response, request, started)
    return response


def _begin(ctx: Context, token: str, code: str) -> sessions.StartedSession | None:
    with ctx.db.write() as session:
        identity: Identity | None = None
        if code:
            user = links.redeem(session, code)
            if user is not None and user.id is not None:
                identity = Identity(user.id, user.name, user.role, "session")
        else:
            found = tokens.identity_of_token(session, token)
            identity = found[0] if found is not None else None
        if identity is None:
            return None
        audit.record(session, identity, "session.start", f"user/{identity.id}", {"by": "link" if code else "token"})
        return sessions.start_session(session, identity.id)


@router.post("/logout")
def log_out(request: Request, user: CurrentUser, session: WriteSession) -> Response:
    """End this browser's session."""
    if user.session_id is not None:
        sessions.end_session(session, user.session_id)
    response = RedirectResponse(f"/login?{urlencode({'next': '/'})}", 303)
    sessions.clear_cookie(response, request)
    return response
