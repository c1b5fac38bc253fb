"""Every error that a person may see, as one tree.

`DomainError` carries a stable `code` (scripts match on it), a sentence that names the place and the cure, and, where one
field is at fault, its name. The HTTP edge turns `status` into the answer; nothing below it knows HTTP.

    DomainError
    ├── NotFound            404  the thing named does not exist
    ├── Invalid             422  input that can be corrected: `field` says where
    ├── Conflict            409  legal input, wrong moment: `allowed` lists the moves that are legal now
    ├── PreconditionFailed  412  somebody changed it first
    ├── Forbidden           403  the role does not allow it
    ├── TooLarge            413  over a limit that `message` names
    └── Unavailable         503  something we depend on is not there
"""

from collections.abc import Sequence


class DomainError(Exception):
    """Base of the tree; `str(error)` is the sentence for a person."""

    status = 400

    def __init__(self, code: str, message: str, *, field: str | None = None, allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.allowed = tuple(allowed)


class NotFound(DomainError):  # noqa: N818  (named as HTTP names it)
    """No such thing, or not one this user may see."""

    status = 404

    def __init__(self, what: str, key: object) -> None:
        super().__init__("not_found", f"There is no {what} {key}.")


class Invalid(DomainError):  # noqa: N818
    """Input that the caller can correct."""

    status = 422


class Conflict(DomainError):  # noqa: N818
    """Legal input at the wrong moment."""

    status = 409


class PreconditionFailed(DomainError):  # noqa: N818
    """The version the caller saw is no longer the current one."""

    status = 412


class Forbidden(DomainError):  # noqa: N818
    """The caller's role does not allow it."""

    status = 403


class TooLarge(DomainError):  # noqa: N818
    """Over a limit that the message names."""

    status = 413


class Unavailable(DomainError):  # noqa: N818
    """Something this needs is not there now."""

    status = 503
