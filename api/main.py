"""The composition root: settings in, a whole app out.

settings → database (migrated) → context → middlewares → pages and REST → the worker, started with the app
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from anyio.to_thread import run_sync
from fastapi import FastAPI

import web
from api import errors
from api.auth.gate import Gate
from api.auth.throttle import FailureThrottle
from api.auth.tokens import ensure_admin
from api.guards import MIB, BodyLimit, HostAllowList, Outermost
from api.idempotency import Idempotency, mark_interrupted
from api.metrics import Metrics, MetricsMiddleware
from api.routes import all_routers
from api.worker import WorkerWatch
from db.engine import Database
from db.migrate import upgrade
from db.stores import open_id_store
from inference.context import Context
from inference.prompts.service import fail_interrupted_uploads
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from web.routes import router as pages

DESCRIPTION = (
    "Exact-token training data for speculative-decoding drafters. `Authorization: Bearer <token>`; errors are problem details "
    "(RFC 9457) with a stable `code`; lists are keyset pages; long actions answer 202."
)

OUR_MARKS = ("draftmill.sqlite", "worker.lock", "app.log", "demo-token")
"""What a data directory of ours holds, the one or the other."""


def open_context(settings: Settings) -> Context:
    """Open (and migrate) the database and the id store in a data directory that nobody else may read.

    Raises:
        db.errors.Unavailable: the database was made by a newer version, or cannot be migrated.
        OSError: the data directory cannot be made or written.
    """
    _make_private(settings.data_dir)
    db = Database(settings.resolved_database_url)
    upgrade(db)
    for name in ("draftmill.sqlite", "draftmill.sqlite-wal", "draftmill.sqlite-shm"):
        path = settings.data_dir / name
        if path.exists():
            path.chmod(0o600)
    return Context(
        settings=settings,
        db=db,
        ids=open_id_store(db, settings.data_dir),
        tokenizers=TokenizerCache(settings.model_roots, settings.allow_remote_code),
    )


def _make_private(folder: Path) -> None:
    """Make the folder, for us alone. One that others use too (`/tmp`, by mistake) keeps its mode: what we put there is private."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not any(folder.iterdir()) or any((folder / name).exists() for name in OUR_MARKS):
        os.chmod(folder, 0o700)  # noqa: PTH101  (follows a link on purpose: the folder it names holds the data)


def create_app(settings: Settings, *, worker: bool = True) -> FastAPI:
    """The app, ready to be served.

    Args:
        settings: the operator's.
        worker: whether the worker process is started and watched with the app; without it nothing runs by itself.

    Returns:
        The app; `app.state.first_admin_token` is the token made for the first admin, to be shown once, or None.

    Raises:
        ValueError: the admin token in the settings is too short.
        db.errors.Unavailable, OSError: as `open_context`.
    """
    ctx = open_context(settings)
    app = FastAPI(
        title="Draftmill",
        version=_version(),
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        lifespan=_lifespan,
    )
    app.state.context = ctx
    app.state.closing = asyncio.Event()
    app.state.metrics = Metrics(ctx.db)
    app.state.throttle = FailureThrottle()
    app.state.worker = WorkerWatch(settings) if worker else None
    with ctx.db.write() as session:
        app.state.first_admin_token = ensure_admin(session, settings)
    errors.install(app)
    for router in all_routers():
        app.include_router(router)
    app.include_router(pages, include_in_schema=False)
    web.mount_static(app)
    # The last added is the outermost.
    app.add_middleware(Idempotency, db=ctx.db)
    app.add_middleware(Gate, db=ctx.db)
    app.add_middleware(BodyLimit, max_upload=settings.max_upload_mb * MIB)
    app.add_middleware(HostAllowList, allowed=settings.allowed_hosts)
    app.add_middleware(MetricsMiddleware, metrics=app.state.metrics)
    app.add_middleware(Outermost)
    return app


def _version() -> str:
    try:
        return version("draftmill")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0"


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    ctx: Context = app.state.context
    watch: WorkerWatch | None = app.state.worker
    await run_sync(_settle_interrupted, ctx)
    watching = asyncio.create_task(watch.run(app.state.closing)) if watch is not None else None
    try:
        yield
    finally:
        app.state.closing.set()
        if watching is not None:
            await watching
        ctx.ids.close()
        ctx.db.dispose()


def _settle_interrupted(ctx: Context) -> None:
    with ctx.db.write() as session:
        mark_interrupted(session)
        fail_interrupted_uploads(session)
