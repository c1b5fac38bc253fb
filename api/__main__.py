"""`python -m api`: serve Draftmill. `--help` explains every setting."""

import argparse
import errno
import os
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog
import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError

from api.auth import create_login_link
from api.auth.tokens import ADMIN_NAME
from api.auth.users import user_named
from api.main import create_app
from db.errors import DomainError
from inference.context import Context
from inference.settings import Settings

LINK_TTL = timedelta(hours=24)
SHUTDOWN_S = 5
"""Seconds that answers under way have to finish; streams are told to end at once."""


class Server(uvicorn.Server):
    """uvicorn, which says where it listens and tells streams when it closes."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._draftmill, self._announce = app, announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen; what is printed then is true."""
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams first: they would hold the shutdown for as long as somebody watches."""
        self._draftmill.state.closing.set()
        await super().shutdown(sockets)


def settings_help() -> str:
    """Every setting: its environment variable, its default, and what it decides."""
    lines = ["settings (environment or .env; an option above wins over them):"]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = ",".join(map(str, default)) if isinstance(default, list) else str(default)
        lines.append(f"  DRAFTMILL_{name.upper()}")
        lines.append(f"      {field.description} Default: {shown if default not in (None, '') else 'unset'}.")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m api",
        description="Serve Draftmill: pages, REST and the worker.",
        epilog=settings_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--host", help="address to listen on (DRAFTMILL_HOST)")
    made.add_argument("--port", type=int, help="port to listen on; 0 picks a free one and prints it (DRAFTMILL_PORT)")
    made.add_argument("--data-dir", type=Path, help="where everything lies (DRAFTMILL_DATA_DIR)")
    made.add_argument(
        "--print-login-link",
        nargs="?",
        const=ADMIN_NAME,
        metavar="NAME",
        help=f"print a log-in URL that works once, within a day, for this user (left out: {ADMIN_NAME}); "
        "for another user, or while the app runs: python -m api.login",
    )
    return made


def listen(host: str, port: int) -> socket.socket:
    """A bound socket.

    Raises:
        SystemExit: the port is taken or the address is not ours, said in a sentence.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(2048)  # so that a second listener is refused now, not when uvicorn gets to it
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SystemExit(
                f"Port {port} on {host} is in use, perhaps by another Draftmill: stop that, or choose another port with "
                "DRAFTMILL_PORT or --port (0 picks a free one)."
            ) from error
        raise SystemExit(f"Cannot listen on {host} port {port}: {error.strerror} (DRAFTMILL_HOST, --host).") from error
    return listener


def base_url(host: str, port: int) -> str:
    """What to type into a browser on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host.strip("[]"), host.strip("[]"))  # noqa: S104  (compared, not bound)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def read_settings(options: argparse.Namespace) -> Settings:
    """Settings from the environment, options over them.

    Raises:
        SystemExit: a setting is not valid, by name.
    """
    given = {"host": options.host, "port": options.port, "data_dir": options.data_dir}
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        said = "; ".join(f"DRAFTMILL_{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors())
        raise SystemExit(f"{said}. See python -m api --help.") from error


def login_url(ctx: Context, url: str, name: str) -> str:
    """A one-time log-in URL for a user.

    Raises:
        SystemExit: there is no such user.
    """
    with ctx.db.write() as session:
        user = user_named(session, name)
        if user is None or user.id is None or user.disabled_at is not None:
            raise SystemExit(f"There is no active user {name!r}: python -m api.login --name {name} makes one.")
        return f"{url}/login?code={create_login_link(session, user.id, LINK_TTL)}"


def _configure_log() -> None:
    """Lines on stderr; tracebacks without local variables, which hold tokens and prompts."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop."""
    options = parser().parse_args(arguments)
    os.umask(0o077)  # what we write holds keys and other people's work
    _configure_log()
    settings = read_settings(options)
    with listen(settings.host, settings.port) as listener:
        url = base_url(settings.host, listener.getsockname()[1])
        try:
            app = create_app(settings)
        except (DomainError, ValueError, OSError) as error:
            raise SystemExit(f"Draftmill cannot start: {error}") from error
        if app.state.first_admin_token is not None:
            print(f"Token of {ADMIN_NAME} (shown this once, kept nowhere): {app.state.first_admin_token}", flush=True)
        announcement = f"Draftmill is at {url} (Ctrl-C stops it)"
        if options.print_login_link is not None:
            link = login_url(app.state.context, url, options.print_login_link)
            announcement += f"\nLog in once, within a day: {link}"
        config = uvicorn.Config(
            app,
            proxy_headers="FORWARDED_ALLOW_IPS"
            in os.environ,  # else a client names its own address to the log-in throttle
            access_log=False,  # addresses hold one-time codes
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_S,
            log_level="warning",
        )
        Server(config, app, partial(print, announcement, flush=True)).run(sockets=[listener])


if __name__ == "__main__":
    main()
