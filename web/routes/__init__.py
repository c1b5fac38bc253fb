"""One module per page family; `router` has them all. Handlers parse a form, call a service, and draw or redirect."""

from fastapi import APIRouter, FastAPI

from web import shell
from web.assets import router as assets_router

router = APIRouter(include_in_schema=False)
router.include_router(assets_router)


def install(app: FastAPI) -> None:
    """Give the app its pages: routes, static files, and the drawing of errors and of the log-in."""
    app.state.error_page = shell.error_page
    app.state.login_page = shell.login_page
    app.include_router(router)
