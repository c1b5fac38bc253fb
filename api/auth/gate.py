"""The gate: every request but the open ones needs a live token or session, before any route sees it.

An ASGI middleware, so that a new route is closed by default. It puts the caller's `Identity` into `request.state.identity`.
"""

from urllib.parse import quote

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.auth import csrf, sessions, tokens
from api.auth.identity import Identity
from api.errors import Problem, problem_response, wants_page
from api.guards import UPLOAD_PATHS
from db.engine import Database
from db.types import now

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/login", "/favicon.ico"})
OPEN_PREFIX = "/static/"
"""The log-in page's style and script; nothing of anybody's work lies there."""

UNAUTHORIZED = Problem(
    401,
    "unauthorized",
    "This needs a token: send `Authorization: Bearer <token>`, or log in at /login.",
    headers={"WWW-Authenticate": 'Bearer realm="draftmill"'},
)
BAD_TOKEN = Problem(
    401,
    "token_invalid",
    "This token is unknown or was revoked; an admin can make another (POST /api/v1/users/{id}/tokens).",
    headers={"WWW-Authenticate": 'Bearer realm="draftmill", error="invalid_token"'},
)
CSRF = Problem(
    403,
    "csrf",
    "With a session cookie, a change needs the session's CSRF token: the form field `csrf` or the header `X-CSRF-Token` "
    "(GET /api/v1/me shows it). Reload the page and try again.",
)
FOREIGN = Problem(403, "foreign_origin", "The browser says that another site sent this; it was not done.")


class Gate:
    """Refuses who may not come in; sees to CSRF for those who come by cookie.

    Args:
        app: what lies behind.
        db: where tokens and sessions are looked up, off the event loop.
    """

    def __init__(self, app: ASGIApp, db: Database) -> None:
        self._app, self._db = app, db

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, or answer 401, 403 or a redirect to the log-in page."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        path = scope["path"]
        if path in OPEN_PATHS or path.startswith(OPEN_PREFIX):
            if request.method not in csrf.SAFE and csrf.foreign_origin(request):
                await problem_response(request, FOREIGN)(scope, receive, send)
                return
            await self._app(scope, receive, send)
            return
        found = await run_sync(self._identify, request)
        if not isinstance(found, Identity):
            await self._refuse(request, found)(scope, receive, send)
            return
        request.state.identity = found
        request.state.csrf_pending = False
        if found.via == "session" and request.method not in csrf.SAFE:
            if csrf.foreign_origin(request):
                await problem_response(request, FOREIGN)(scope, receive, send)
                return
            given = request.headers.get(csrf.HEADER)
            if given is None and csrf.media_type(request) == csrf.FORM:
                given, receive = await csrf.form_token(request)
            if given is None and path in UPLOAD_PATHS and csrf.media_type(request) == csrf.MULTIPART:
                request.state.csrf_pending = True
            elif not csrf.carries_token(found, given):
                await problem_response(request, CSRF)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _identify(self, request: Request) -> Identity | Problem:
        """An `Authorization` header is decisive where there is one; a cookie beside it does not count."""
        header = request.headers.get("authorization")
        if header is not None:
            scheme, _, secret = header.partition(" ")
            if scheme.lower() != "bearer" or not secret.strip():
                return UNAUTHORIZED
            with self._db.read() as session:
                found = tokens.identity_of_token(session, secret.strip())
            if found is None:
                return BAD_TOKEN
            identity, token = found
            if token.id is not None and tokens.use_is_stale(token, now()):
                tokens.note_use(self._db, token.id, now())
            return identity
        cookie = request.cookies.get(sessions.COOKIE)
        if not cookie:
            return UNAUTHORIZED
        with self._db.read() as session:
            return sessions.identity_of_cookie(session, cookie) or UNAUTHORIZED

    @staticmethod
    def _refuse(request: Request, problem: Problem) -> Response:
        if wants_page(request) and request.method in csrf.SAFE and "authorization" not in request.headers:
            target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)
        return problem_response(request, problem)
