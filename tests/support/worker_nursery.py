"""Workers by the dozen: a process that has everything imported forks them, so that a test can afford to kill many.

Each is a process of its own running the worker's real `main`; only its imports were done before. `python -m
tests.support.worker_nursery` reads lines on standard input: the path of a log file starts a worker and answers its pid.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from inference.settings import Settings
from tests.support.worker_process import ROOT, worker_environment


class Nursery:
    """Starts workers that share one set of imports, and kills them by their own pid.

    Args:
        settings: theirs.
        database_url: theirs.
        module: what forks them; its `main` calls `fork_on_request`.
    """

    def __init__(self, settings: Settings, database_url: str, module: str = "tests.support.worker_nursery") -> None:
        self._folder = settings.data_dir
        self._count = 0
        environment = worker_environment(settings, database_url)
        if settings.sglang_python is not None:
            environment["DRAFTMILL_SGLANG_PYTHON"] = str(settings.sglang_python)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self) -> "NurseryWorker":
        self._count += 1
        log = self._folder / f"worker-{self._count}.log"
        self._process.stdin.write(f"{log}\n")
        self._process.stdin.flush()
        return NurseryWorker(int(self._process.stdout.readline()), log)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class NurseryWorker:
    """One of them."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self._log = log

    @property
    def lines(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines() if self._log.exists() else []

    @property
    def alive(self) -> bool:
        return Path(f"/proc/{self.pid}").exists()

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        while self.alive:
            time.sleep(0.001)


def main() -> None:
    import transformers  # noqa: F401  (what takes long to import is imported before the fork)
    from transformers import AutoTokenizer  # noqa: F401

    from inference.worker.__main__ import main as work

    fork_on_request(work)


def fork_on_request(work: Callable[[], int]) -> None:
    """A process that runs `work` for each line on standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    kept = []
    while line := sys.stdin.readline():
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(reading, 0)
            log = os.open(line.strip(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(log, 2)
            os.close(writing)
            os._exit(work())
        os.close(reading)
        kept.append(writing)  # its standard input ends when this process does
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
