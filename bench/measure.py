"""What a measurement is: samples a second, CPU seconds per thousand samples, and peak memory, of processes watched from outside."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

ROOT = Path(__file__).resolve().parent.parent
WATCH_EVERY_S = 0.2


@dataclass(frozen=True)
class Row:
    """One line of the table; `note` stands in place of figures that were not measured."""

    name: str
    in_flight: int
    samples: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    note: str = ""

    def markdown(self) -> str:
        """The row as the README's table has it."""
        if not self.wall_s:
            return f"| {self.name} | {self.in_flight} | not measured: {self.note} | | |"
        rate, cpu = self.samples / self.wall_s, self.cpu_s * 1000 / self.samples
        return f"| {self.name} | {self.in_flight} | {rate:,.0f} | {cpu:.2f} | {self.peak_mb:,.0f} |"


def cpu_of(process: psutil.Process) -> float:
    """User and system CPU seconds of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Peak:
    """The largest resident memory of a process while the block runs, in MB (10⁶ bytes)."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.mb = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(WATCH_EVERY_S):
            with contextlib.suppress(psutil.Error):
                self.mb = max(self.mb, self._process.memory_info().rss / 1e6)


@contextlib.contextmanager
def null_engine(tokens: int) -> Iterator[str]:
    """The null engine on a free port; gives its URL, ends it by its own pid."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.null_engine", "--tokens", str(tokens)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
