"""Routers, one per noun, of a few lines a call: they name the role, call a service, note the deed, shape the answer."""

from fastapi import APIRouter

API = "/api/v1"


def all_routers() -> list[APIRouter]:
    """Every router of the REST interface, and the log-in."""
    from api.routes import (
        backend_figures,
        backend_logs,
        backends,
        exports,
        gpus,
        launches,
        leftovers,
        login,
        prompt_sets,
        reviews,
        runs,
        samples,
        system,
        tags,
        tokens,
        users,
    )

    modules = (
        users,
        backends,
        backend_figures,
        backend_logs,
        gpus,
        launches,
        leftovers,
        tokens,
        prompt_sets,
        runs,
        samples,
        reviews,
        tags,
        exports,
        system,
    )
    api = APIRouter(prefix=API)
    for module in modules:
        api.include_router(module.router)
    return [system.root, login.router, api]
