"""Errors as people and scripts see them: problem details (RFC 9457) for scripts, a page for browsers.

Nothing internal leaves here: an unforeseen error says a request id, and the log has the rest under it. What pages use:
`Problem`, and `app.state.error_page = hook` (an `ErrorPage`) to draw errors in their own frame; without a hook a plain page
is drawn.
"""

import sqlite3
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as member
from html import escape
from http import HTTPStatus
from typing import Any, Protocol

import orjson
import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response

from db.errors import DomainError
from inference.tokens.errors import TokensError

log = structlog.get_logger(__name__)

PROBLEM_JSON = "application/problem+json"
MACHINE_PATHS = ("/api/", "/healthz", "/readyz", "/metrics")
MAX_FIELD_ERRORS = 50
_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field at fault: dotted path within the request, a sentence, and the rule's name."""

    field: str
    message: str
    code: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One error; `detail` names the place and the cure, `allowed` the moves that are legal now.

    `extra` are members that this kind of problem alone has; none may be named as another member is.
    """

    status: int
    code: str
    detail: str
    field: str | None = None
    allowed: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()
    headers: Mapping[str, str] = member(default_factory=dict)
    request_id: str | None = None
    extra: Mapping[str, Any] = member(default_factory=dict)

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase

    def to_json(self) -> dict[str, Any]:
        """The members of RFC 9457 and ours; members without a value are left out."""
        members: dict[str, Any] = {
            "type": f"urn:draftmill:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.field is not None:
            members["field"] = self.field
        if self.allowed or self.status == HTTPStatus.CONFLICT:
            members["allowed"] = list(self.allowed)
        if self.errors:
            members["errors"] = [{"field": e.field, "message": e.message, "code": e.code} for e in self.errors]
        if self.request_id is not None:
            members["request_id"] = self.request_id
        return {**self.extra, **members}


class ErrorPage(Protocol):
    """Draws a problem as an HTML page; must answer with `problem.status`."""

    def __call__(self, request: Request, problem: Problem) -> Response:
        """The page."""


def wants_page(connection: HTTPConnection) -> bool:
    """Whether this caller is a browser asking for a page, rather than a script asking the API."""
    path = connection.url.path
    if any(path == machine.rstrip("/") or path.startswith(machine) for machine in MACHINE_PATHS):
        return False
    return "text/html" in connection.headers.get("accept", "")


def request_id(connection: HTTPConnection) -> str:
    """The id under which the log knows this request."""
    return str(getattr(connection.state, "request_id", "-"))


def problem_response(request: Request, problem: Problem) -> Response:
    """The problem as this caller reads it."""
    if problem.request_id is None:
        problem = replace(problem, request_id=request_id(request))
    if wants_page(request):
        hook: ErrorPage | None = getattr(request.app.state, "error_page", None) if "app" in request.scope else None
        response = hook(request, problem) if hook is not None else _plain_page(problem)
    else:
        response = Response(orjson.dumps(problem.to_json()), problem.status, media_type=PROBLEM_JSON)
    response.headers.update(problem.headers)
    return response


def _plain_page(problem: Problem) -> Response:
    title, detail = escape(f"{problem.status} {problem.title}"), escape(problem.detail)
    body = f'<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1><p>{detail}</p><p><a href="/">Start</a></p></html>'
    return HTMLResponse(body, problem.status)


def from_domain(error: DomainError) -> Problem:
    """A domain error keeps its own status, code and sentence."""
    headers = {"Retry-After": "5"} if error.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Problem(error.status, error.code, error.message, error.field, error.allowed, headers=headers)


def from_tokens(error: TokensError) -> Problem:
    """Tokens rooms know no HTTP: what they refuse is input that can be corrected."""
    return Problem(422, error.code, error.message, error.field)


def field_path(location: Sequence[str | int]) -> str:
    """`("body", "launch", "tp_size")` → `launch.tp_size`: where it was (body, query, …) says nothing more."""
    parts = [str(part) for part in location]
    return ".".join(parts[1:] if len(parts) > 1 else parts)


def from_validation(error: RequestValidationError) -> Problem:
    """Every field at fault, without the values sent (they may be secrets, or not JSON)."""
    raw: Sequence[dict[str, Any]] = error.errors()
    found = [
        FieldError(field_path(item["loc"]), str(item["msg"]).removeprefix("Value error, "), str(item["type"]))
        for item in raw[:MAX_FIELD_ERRORS]
    ]
    if any(item.code == "json_invalid" for item in found):
        context = raw[0].get("ctx") or {}
        return Problem(
            422,
            "json_invalid",
            f"The body is not JSON: {context.get('error', 'it cannot be read')} at character {raw[0]['loc'][-1]}.",
        )
    if not found:
        return Problem(422, "invalid", "The request is not valid.")
    more = f" {len(raw) - 1} more: see errors." if len(raw) > 1 else ""
    first = found[0]
    where = "The body" if first.field == "body" else first.field
    return Problem(422, "invalid", f"{where}: {first.message}.{more}", first.field, errors=tuple(found))


def from_http(error: HTTPException) -> Problem:
    """404, 405 and what libraries raise."""
    code = _CODES.get(
        error.status_code, HTTPStatus(error.status_code).phrase.lower().replace(" ", "_").replace("-", "_")
    )
    detail = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = "There is nothing at this address."
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = (
            f"This address does not take that method; it takes {(error.headers or {}).get('Allow', 'another one')}."
        )
    return Problem(error.status_code, code, detail, headers=dict(error.headers or {}))


def from_database(error: Exception) -> Problem | None:
    """What a database refuses that the caller can mend; None where it is our fault."""
    if isinstance(error, (DataError, OverflowError, UnicodeEncodeError)):
        return Problem(
            422,
            "value_out_of_range",
            "A value is too large, or text holds a character that cannot be stored (U+0000, half a surrogate pair).",
        )
    if isinstance(error, IntegrityError):
        return Problem(
            409, "conflict", "Somebody made or removed the same thing at this moment; look again and repeat."
        )
    locked = isinstance(error, OperationalError) and (
        not isinstance(error.orig, sqlite3.Error) or "locked" in str(error.orig)
    )
    if locked or isinstance(error, PoolTimeout):
        return Problem(
            503, "database_busy", "The database did not answer in time; try again.", headers={"Retry-After": "2"}
        )
    return None


def unforeseen(connection: HTTPConnection, error: Exception) -> Problem:
    """A 500 that says nothing of the inside; the log has it under the request id."""
    rid = request_id(connection)
    log.error("request failed", request_id=rid, path=connection.url.path, exception=_plain_traceback(error))
    return Problem(
        500, "internal", f"Something failed on our side; the log has it under request id {rid}.", request_id=rid
    )


def _plain_traceback(error: Exception) -> str:
    """Without local variables: they hold tokens and prompts, and drawing them takes seconds of the event loop."""
    return "".join(traceback.format_exception(error))


def problem_of(connection: HTTPConnection, error: Exception) -> Problem:
    """Any exception as a problem."""
    match error:
        case DomainError():
            return from_domain(error)
        case TokensError():
            return from_tokens(error)
        case RequestValidationError():
            return from_validation(error)
        case HTTPException():
            return from_http(error)
    known = from_database(error)
    if known is not None:
        log.warning("database refused", request_id=request_id(connection), error=type(error).__name__)
        return known
    return unforeseen(connection, error)


def install(app: FastAPI) -> None:
    """Teach the app to answer every error in this one shape (what no handler here names reaches `api.guards`)."""

    async def answer(request: Request, error: Exception) -> Response:
        return problem_response(request, problem_of(request, error))

    for kind in (
        DomainError,
        TokensError,
        RequestValidationError,
        HTTPException,
        DataError,
        IntegrityError,
        OperationalError,
    ):
        app.add_exception_handler(kind, answer)
    app.add_exception_handler(PoolTimeout, answer)
