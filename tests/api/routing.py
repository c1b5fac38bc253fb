"""Every route of an app, however its routers are nested, and one address of each."""

import re
from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts


def operations(app: FastAPI) -> Iterator[tuple[str, str]]:
    """(method, path pattern) of every route; mounted static files count as one."""
    for route in iter_route_contexts(app.routes):
        methods = getattr(route, "methods", None) or {"GET"}
        for method in sorted(methods - {"HEAD"}):
            yield method, route.path


def address(pattern: str) -> str:
    """An address that the pattern takes."""
    filled = re.sub(r"\{action\}", "start", pattern)
    return re.sub(r"\{[^}]+\}", "1", filled)
