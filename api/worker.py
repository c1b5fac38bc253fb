"""The worker process, started and watched: if it dies it is started again, later each time; it ends with the app."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from anyio.to_thread import run_sync

from inference.backends.host.process import WorkerProcess, spawn_worker
from inference.settings import Settings

log = structlog.get_logger(__name__)

ARGV = (sys.executable, "-m", "inference.worker")
POLL_S = 0.25
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
STEADY_S = 60.0
"""A worker that lived so long starts the waiting over."""
LEAVE_S = 65.0
"""A worker told to stop may finish what it writes; it leaves by itself within a minute."""
SECRET_NAMES = frozenset({"DRAFTMILL_ADMIN_TOKEN"})


@dataclass(slots=True)
class WorkerState:
    """What the watch knows."""

    pid: int | None = None
    restarts: int = 0
    last_exit: int | None = None


def worker_environment(settings: Settings, base: Mapping[str, str]) -> dict[str, str]:
    """The environment that makes the worker see the very settings of the app; the admin's token is no business of its."""
    environment = {name: value for name, value in base.items() if name.upper() not in SECRET_NAMES}
    environment |= {
        "DRAFTMILL_DATA_DIR": str(settings.data_dir.absolute()),
        "DRAFTMILL_DATABASE_URL": settings.resolved_database_url,
        "DRAFTMILL_HOST": settings.host,
        "DRAFTMILL_PORT": str(settings.port),
        "DRAFTMILL_ALLOWED_HOSTS": ",".join(settings.allowed_hosts),
        "DRAFTMILL_MODEL_ROOTS": ":".join(str(root.absolute()) for root in settings.model_roots),
        "DRAFTMILL_ALLOW_REMOTE_CODE": "1" if settings.allow_remote_code else "0",
        "DRAFTMILL_ALLOWED_FLAGS": ",".join(settings.allowed_flags),
        "DRAFTMILL_LOG_MAX_MB": str(settings.log_max_mb),
        "DRAFTMILL_LOG_KEEP": str(settings.log_keep),
        "DRAFTMILL_MAX_UPLOAD_MB": str(settings.max_upload_mb),
    }
    if settings.sglang_python is not None:
        environment["DRAFTMILL_SGLANG_PYTHON"] = str(settings.sglang_python.absolute())
    return environment


class WorkerWatch:
    """Keeps one worker running.

    Args:
        settings: handed down to it.
        spawn: starts it; the seam for tests.
    """

    def __init__(self, settings: Settings, spawn: Callable[[], WorkerProcess] | None = None) -> None:
        self._environment = worker_environment(settings, os.environ)
        self._spawn = spawn or self._start
        self.state = WorkerState()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`: start, wait for its end, start again; then end it and wait until it is gone."""
        wait_s = FIRST_WAIT_S
        while not stop.is_set():
            began = time.monotonic()
            try:
                worker = await run_sync(self._spawn)
            except OSError as error:
                log.warning("the worker cannot be started", error=str(error))
            else:
                await self._watch(worker, stop)
            if stop.is_set():
                return
            if time.monotonic() - began > STEADY_S:
                wait_s = FIRST_WAIT_S
            self.state.restarts += 1
            log.warning("the worker ended; it is started again", exit_code=self.state.last_exit, wait_s=wait_s)
            await _sleep(stop, wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    async def _watch(self, worker: WorkerProcess, stop: asyncio.Event) -> None:
        self.state.pid = worker.pid
        try:
            while worker.poll() is None and not stop.is_set():
                await _sleep(stop, POLL_S)
        finally:
            self.state.last_exit = await run_sync(worker.stop, LEAVE_S)
            self.state.pid = None

    def _start(self) -> WorkerProcess:
        return spawn_worker(ARGV, self._environment, None)


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    """Wait, or less if the app ends."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
