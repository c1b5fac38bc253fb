"""JSON bodies, read strictly: what the database or a browser could not hold is refused here, once, for every route.

Python's reader takes `NaN`, half a surrogate pair and nesting without end; none of them is JSON that others can read.
"""

import json
import math
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from inference.tokens.numbers import as_spelled, as_whole

_UNSTORABLE = re.compile("[\ud800-\udfff\0]")


def _refuse_constant(name: str) -> None:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # read as infinity, which no JSON answer could give back
        raise json.JSONDecodeError(f"{text[:20]} is too large a number", text, 0)
    return value


def _refuse_unstorable(text: str, value: object) -> None:
    """Walk without recursion: depth is the sender's choice."""
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str) and _UNSTORABLE.search(item):
            raise json.JSONDecodeError("a string holds U+0000 or half a surrogate pair", text, 0)


class StrictRequest(Request):
    """A request whose `json()` refuses what is not JSON."""

    parse_float: Callable[[str], float] = staticmethod(_finite)
    parse_int: Callable[[str], float] | None = None

    async def json(self) -> Any:
        """The body.

        Raises:
            json.JSONDecodeError: not UTF-8, not JSON, too deep, or with text that cannot be stored.
        """
        if not hasattr(self, "_json"):
            raw = await self.body()
            try:
                text = raw.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise json.JSONDecodeError("not UTF-8", "", error.start) from error
            try:
                value = json.loads(
                    text, parse_constant=_refuse_constant, parse_float=self.parse_float, parse_int=self.parse_int
                )
            except RecursionError as error:
                raise json.JSONDecodeError("nested too deep", text, 0) from error
            except json.JSONDecodeError:
                raise
            except ValueError as error:  # an integer of more digits than Python reads
                raise json.JSONDecodeError("a number has too many digits", text, 0) from error
            if "\\u" in text:
                _refuse_unstorable(text, value)
            self._json = value
        return self._json


class ExactRequest(StrictRequest):
    """A request whose numbers keep their digits, for bodies that a chat template is to print."""

    parse_float = staticmethod(as_spelled)
    parse_int = staticmethod(as_whole)


class StrictRoute(APIRoute):
    """A route whose body is read by `StrictRequest`."""

    reads: type[StrictRequest] = StrictRequest

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, given the stricter request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(self.reads(request.scope, request.receive))

        return strict


class ExactRoute(StrictRoute):
    """A route whose body is read by `ExactRequest`."""

    reads = ExactRequest


def make_router(*, tag: str, prefix: str = "", exact: bool = False) -> APIRouter:
    """A router for one noun of the REST interface; `exact`: numbers in its bodies keep their digits (`SpelledFloat`)."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=ExactRoute if exact else StrictRoute)
