"""One worker per data directory, held by a file lock that the kernel gives back whatever way the process ends.

It guards the ids and logs that lie there; the lock of the database (`db.exclusive`) guards the servers and runs that stand in it.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

WAIT_S: Final = 60.0
STEP_S: Final = 0.1


class AlreadyRunning(Exception):  # noqa: N818  (named for what it means)
    """Another worker holds the data directory; the sentence names it."""


@contextmanager
def worker_lock(data_dir: Path, *, wait_s: float = WAIT_S, gone: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Hold the data directory; waits for a worker that is on its way out.

    Args:
        data_dir: holds `worker.lock`, which names the holder's process id.
        wait_s: seconds to wait.
        gone: checked while waiting; true means that nobody wants this worker any more.

    Raises:
        AlreadyRunning: it was not free in time, or nobody waits for it any more.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(data_dir / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, data_dir, wait_s, gone)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, data_dir: Path, wait_s: float, gone: Callable[[], bool]) -> None:
    deadline = time.monotonic() + wait_s
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            if gone():
                raise AlreadyRunning("Nobody waits for this worker any more.") from None
            if time.monotonic() >= deadline:
                raise AlreadyRunning(
                    f"Another worker (pid {holder}) works on {data_dir} and did not end within {wait_s:g} s: stop it first, "
                    "or give this one a data directory of its own."
                ) from None
            if not said:
                log.info("waiting_for_the_other_worker", pid=holder, data_dir=str(data_dir), at_most_s=wait_s)
                said = True
            time.sleep(STEP_S)
        else:
            return
