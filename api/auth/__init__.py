"""Who may come in, and what they may do.

Nothing is open but the log-in page, its static files, `/healthz` and `/readyz`: `api.auth.gate` refuses everything else
before any route sees it, so that a route cannot forget to ask. Bearer tokens and session cookies are random; the database
keeps their SHA-256 alone.

What pages use: `Identity` (also as `api.deps.CurrentUser`; `identity.csrf` goes into every form's hidden field `csrf`, and
into the header `X-CSRF-Token` of scripts), `ROLES`, `allows`, `app.state.login_page = hook` (a `LoginPage`) to draw the log-in
page in their own frame.
"""

from api.auth.identity import ROLES, Identity, Role, allows
from api.auth.links import create_login_link
from api.auth.pages import LoginForm, LoginPage
from api.auth.tokens import create_token, ensure_admin

__all__ = [
    "ROLES",
    "Identity",
    "LoginForm",
    "LoginPage",
    "Role",
    "allows",
    "create_login_link",
    "create_token",
    "ensure_admin",
]
