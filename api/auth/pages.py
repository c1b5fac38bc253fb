"""The log-in page as data, and a plain drawing of it for when no page hook is set."""

from dataclasses import dataclass
from html import escape
from typing import Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response


@dataclass(frozen=True, slots=True)
class LoginForm:
    """What the log-in page shows: a form that POSTs to `/login`.

    With `code` it has a hidden field `code` and one button ("Log in"): the code is spent by the POST, so that a preview of
    the link spends nothing. Without, it asks for `token`. `next` is a hidden field in both. `error` is a sentence, or "".
    Answer with `status`.
    """

    code: str = ""
    next: str = "/"
    error: str = ""
    status: int = 200


class LoginPage(Protocol):
    """Draws the form as an HTML page."""

    def __call__(self, request: Request, form: LoginForm) -> Response:
        """The page."""


def local_path(target: str) -> str:
    """Where to go after log-in: a path on this site, never another one's address."""
    bad = not target.startswith("/") or target.startswith("//") or "\\" in target or not target.isprintable()
    return "/" if bad else target


def draw(request: Request, form: LoginForm) -> Response:
    """The page by the hook in `app.state.login_page`, or plainly."""
    hook: LoginPage | None = getattr(request.app.state, "login_page", None)
    response = hook(request, form) if hook is not None else _plain(form)
    response.headers["Cache-Control"] = "no-store"
    return response


def _plain(form: LoginForm) -> Response:
    error = f'<p role="alert">{escape(form.error)}</p>' if form.error else ""
    if form.code:
        field = f'<input type="hidden" name="code" value="{escape(form.code)}">'
    else:
        field = '<label>Token <input type="password" name="token" autocomplete="current-password" required autofocus></label>'
    body = (
        '<!doctype html><html lang="en"><title>Log in – Draftmill</title><h1>Log in</h1>'
        f'{error}<form method="post" action="/login"><input type="hidden" name="next" value="{escape(form.next)}">'
        f"{field} <button>Log in</button></form></html>"
    )
    return HTMLResponse(body, form.status)
