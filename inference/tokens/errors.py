"""What this room refuses, in one shape: it may not know the error tree above it."""


class TokensError(Exception):
    """A tokenizer, template, format or id that cannot be used.

    `code` is stable (scripts match on it); `message` names the place and the cure; `field` names the request field at fault,
    where there is one. The HTTP edge answers 422.
    """

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
