"""The error bodies of SGLang, by the letter that the protocol notes give them, and the refusal that carries one."""

import json


class Refused(Exception):  # noqa: N818  (an answer, not a mistake)
    """The request is answered with an error; the body is one of the shapes a–e or plain text."""

    def __init__(self, status: int, shape: str, message: str) -> None:
        super().__init__(message)
        self.status, self.shape, self.message = status, shape, message


class Died(Exception):  # noqa: N818  (an event, not a mistake)
    """The request took the server down."""


def error_body(status: int, shape: str, message: str) -> tuple[bytes, str]:
    """Body and content type of an error.

    a: syntax and validation; b: schema contract; c: a ValueError; d: an HTTPException; e: auth; "openai": the chat route's own; f is a frame in a stream
    (see `stream_error`); "plain": an unhandled exception; "detail": the framework's own 404 and 405.
    """
    if shape == "plain":
        return message.encode(), "text/plain; charset=utf-8"
    bodies: dict[str, object] = {
        "a": {"object": "error", "message": message, "type": "Bad Request", "param": None, "code": status},
        "b": {"error": message},
        "c": {"error": {"message": message}},
        "d": {"object": "error", "message": message, "type": str(status), "param": None, "code": status},
        "e": {"error": message},
        "openai": {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status},
        "detail": {"detail": message},
    }
    return json.dumps(bodies[shape], separators=(",", ":")).encode(), "application/json"


def stream_error(message: str, code: int = 400) -> str:
    """Shape f: what follows a 200 that was already sent."""
    error = {"message": message, "type": "invalid_request_error", "code": code, "retryable": False}
    return json.dumps({"error": error}, separators=(",", ":"))


def validation_message(kind: str, location: tuple[object, ...], text: str, given: object) -> str:
    """The sentence of shape a, as pydantic and the route print it."""
    item = {"type": kind, "loc": location, "msg": text, "input": given}
    return f'1 validation error:\n  {item}\n\n  File "http_server.py", line 928, in generate_request\n    POST /generate [{item}]'
