"""`python -m api.login`: a one-time log-in URL (or a token) for a user, beside a running app or before it starts.

Whoever can read the data directory or the database may do this: they could read everything there anyway.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from api.__main__ import base_url, login_url, read_settings
from api.auth import ROLES, audit, create_token
from api.auth.identity import Identity
from api.auth.users import change_user, create_user, user_named
from api.main import open_context
from db.errors import DomainError
from inference.context import Context


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m api.login",
        description="Print a log-in URL that works once, within a day. The user is made if there is none of that name.",
    )
    made.add_argument("--name", default="admin", help="whose (default: admin)")
    made.add_argument("--role", choices=ROLES, help="the role of a user who is made (reviewer), or to change to")
    made.add_argument("--token", action="store_true", help="print a new bearer token instead of a URL")
    made.add_argument("--url", help="where the app is reached, if not at DRAFTMILL_HOST and DRAFTMILL_PORT")
    made.add_argument("--data-dir", type=Path, help="where everything lies (DRAFTMILL_DATA_DIR)")
    return made


def see_to_user(ctx: Context, name: str, role: str | None, *, token: bool) -> str | None:
    """Make or change the user; with `token`, a new bearer token of theirs.

    Raises:
        db.errors.DomainError: a bad name, or the change would leave no admin.
    """
    with ctx.db.write() as session:
        user = user_named(session, name) or create_user(session, name, role or "reviewer")
        user_id = user.id
        assert user_id is not None  # noqa: S101  (flushed)
        if role is not None and role != user.role:
            user = change_user(session, user_id, role=role)
        by_hand = Identity(user_id, user.name, user.role, "token")
        audit.record(session, by_hand, "login.command_line", f"user/{user_id}", {"role": user.role, "token": token})
        return create_token(session, user_id, "command line")[1] if token else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Print it."""
    options = parser().parse_args(arguments)
    os.umask(0o077)
    options.host = options.port = None
    settings = read_settings(options)
    try:
        ctx = open_context(settings)
        try:
            secret = see_to_user(ctx, options.name, options.role, token=options.token)
            url = options.url.rstrip("/") if options.url else base_url(settings.host, settings.port)
            sys.stdout.write(f"{secret or login_url(ctx, url, options.name)}\n")
        finally:
            ctx.ids.close()
            ctx.db.dispose()
    except (DomainError, OSError) as error:
        raise SystemExit(f"No log-in: {error}") from error


if __name__ == "__main__":
    main()
