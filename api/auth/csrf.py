"""Whether an unsafe request with a cookie was meant: by its origin, and by a token that no other site can read.

Both must hold. The token comes in the header `X-CSRF-Token`, or in the form field `csrf`: an urlencoded body is small and
read here, then given back; a multipart one may be an upload of gigabytes and is left to `api.uploads`, which checks the field
while it reads. Until it has checked, `api.deps` knows no caller.
"""

from urllib.parse import parse_qs, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.types import Message, Receive

from api.auth.identity import Identity
from api.auth.secrets import same

HEADER = "x-csrf-token"
FIELD = "csrf"
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 2000


def foreign_origin(connection: HTTPConnection) -> bool:
    """Whether the browser says that another site sent this."""
    if connection.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = connection.headers.get("origin")
    if origin is None:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:  # an address that is none is not ours
        return True
    return parts.scheme not in {"http", "https"} or parts.netloc.lower() != connection.headers.get("host", "").lower()


def carries_token(identity: Identity, given: str | None) -> bool:
    """Whether this is the session's own token."""
    return bool(given) and bool(identity.csrf) and same(str(given), identity.csrf)


def media_type(connection: HTTPConnection) -> str:
    """The content type without parameters."""
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower()


async def form_token(request: Request) -> tuple[str | None, Receive]:
    """The field `csrf` of an urlencoded body, and a `receive` that gives the body again."""
    body = await request.body()
    try:
        values = parse_qs(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS).get(FIELD, [])
    except ValueError:  # more fields than any form here has
        values = []
    return (values[0] if values else None), replayed(body, request.receive)


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives `body` once, then whatever comes (a disconnect)."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
