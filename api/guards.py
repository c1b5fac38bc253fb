"""What stands around the whole app: request ids, security headers, the Host allow-list, body limits, and a net for faults.

Plain ASGI middlewares, outermost first in `wrap`. They hold for pages, REST and static files alike.
"""

import re
import secrets
from collections.abc import Iterable
from typing import cast
from urllib.parse import unquote_to_bytes

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import Problem, problem_of, problem_response

MIB = 1 << 20
MAX_BODY = 16 * MIB
"""Largest body of a request that is not an upload: a sample of 10^6 ids as JSON fits."""
FORM_OVERHEAD = MIB
"""What multipart framing may add to an upload."""
UPLOAD_PATHS = frozenset({"/api/v1/prompt-sets", "/prompt-sets"})

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Outermost:
    """Gives each request an id, each answer the security headers, and each unforeseen error the shape of all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; an error after the answer has begun can only cut the connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        request.state.request_id = secrets.token_hex(8)
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._add_headers(request, message)
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception as error:
            problem = problem_of(request, error)
            if started:
                raise
            await problem_response(request, problem)(scope, receive, guarded)

    @staticmethod
    def _add_headers(request: Request, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        headers["X-Request-ID"] = request.state.request_id
        for name, value in SECURITY_HEADERS.items():
            headers[name] = value
        private = "no-store" if request.url.path.startswith("/api/") else "private, no-cache"
        headers.setdefault("Cache-Control", private)


class HostAllowList:
    """Answers only to its own names: a page elsewhere that re-points its name at us (DNS rebinding) gets nothing.

    Args:
        app: what lies behind.
        allowed: host names without port, IPv6 in brackets or not.
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        self._app = app
        self._allowed = frozenset(_host_name(host) for host in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, or answer 400 (no Host, or two) or 421 (not one of ours)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        request = Request(scope, receive)
        if len(hosts) != 1:
            problem = Problem(400, "host_header", "The request must carry exactly one Host header.")
        elif _host_name(hosts[0]) not in self._allowed:
            problem = Problem(
                421,
                "host_not_allowed",
                f"This server does not answer to the name {_host_name(hosts[0])[:100]!r}. If it should, start it with "
                "DRAFTMILL_ALLOWED_HOSTS naming it (comma-separated, without port).",
            )
        elif b"\0" in unquote_to_bytes(scope["query_string"]) or "\0" in scope["path"]:
            problem = Problem(400, "bad_request", "The address holds U+0000, which no name or value here can have.")
        else:
            await self._app(scope, receive, send)
            return
        await problem_response(request, problem)(scope, receive, send)


def _host_name(host: str) -> str:
    """`[::1]:8400` → `::1`, `LocalHost.:80` → `localhost`."""
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name if bracket and re.fullmatch(r"(?::[0-9]*)?", rest) else host
    name, separator, port = host.rpartition(":")
    if separator and (port.isdecimal() or not port) and ":" not in name:
        host = name
    return host.removesuffix(".")


class BodyLimit:
    """Bounds what a request may send, by what it declares and by what it then does send.

    Args:
        app: what lies behind.
        max_upload: bytes of an upload; everything else may have `MAX_BODY`.
    """

    def __init__(self, app: ASGIApp, max_upload: int) -> None:
        self._app, self._max_upload = app, max_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a declared excess before reading, an undeclared one while reading."""
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await self._app(scope, receive, send)
            return
        upload = scope["path"] in UPLOAD_PATHS
        limit = self._max_upload + FORM_OVERHEAD if upload else MAX_BODY
        setting = " (DRAFTMILL_MAX_UPLOAD_MB)" if upload else ""
        shown = (self._max_upload if upload else MAX_BODY) // MIB
        excess = HTTPException(
            413, f"The body is larger than the limit of {shown} MiB{setting}."
        )  # FastAPI lets this pass as it is
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > limit:
            await problem_response(Request(scope, receive), problem_of(Request(scope), excess))(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(cast("bytes", message.get("body", b"")))
                if received > limit:
                    raise excess
            return message

        await self._app(scope, counted, send)
