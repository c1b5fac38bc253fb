"""`If-Match`: a change is made only to the version that the caller saw."""

import hashlib
import json

from fastapi import Request

from db.errors import Invalid, PreconditionFailed


def etag_of(*parts: object) -> str:
    """A strong ETag of what people can change in a resource (not of what moves by itself)."""
    return f'"{hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:20]}"'


def check_match(request: Request, current: str) -> None:
    """Let the change through if the caller named no version, any (`*`), or this one.

    Raises:
        PreconditionFailed: somebody changed it since.
    """
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return
    if current not in [part.strip() for part in given.split(",")]:
        raise PreconditionFailed(
            "changed_elsewhere", f"Somebody changed it since (now {current}): read it again, then repeat the change."
        )


def version_of(request: Request) -> int | None:
    """The version number in `If-Match: "3"`; None where none is named, or any will do (`*`).

    Raises:
        Invalid: not one of the ETags that reviews have.
    """
    given = request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    number = given.strip().removeprefix('"').removesuffix('"')
    if not number.isdecimal() or len(number) > 9:  # noqa: PLR2004  (no review is saved so often)
        raise Invalid(
            "if_match_invalid", 'A review\'s ETag is its version in quotes, as "3" ("0": none yet).', field="If-Match"
        )
    return int(number)
