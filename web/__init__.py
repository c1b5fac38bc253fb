"""Server-rendered pages: routes, frozen page models, templates and static files. Holds no business rule; calls the services.

The composition root includes `web.routes.router` and calls `mount_static`.
"""

from fastapi import FastAPI


def mount_static(app: FastAPI) -> None:
    """Serve the static files, and draw errors and the log-in in the pages' own frame."""
    from web import assets, shell

    app.state.error_page = shell.error_page
    app.state.login_page = shell.login_page
    app.include_router(assets.router)
