"""A real worker process for tests: started as the app starts it, killed by its own pid."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from inference.settings import Settings

ROOT = Path(__file__).parents[2]


def worker_environment(settings: Settings, database_url: str) -> dict[str, str]:
    """A worker's environment: nothing of the outside but what every program needs."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("DRAFTMILL_")},
        "DRAFTMILL_DATA_DIR": str(settings.data_dir),
        "DRAFTMILL_DATABASE_URL": database_url,
        "DRAFTMILL_MODEL_ROOTS": ":".join(map(str, settings.model_roots)),
    }


class WorkerProcess:
    """`python -m inference.worker` with settings in its environment; its log is kept line by line."""

    def __init__(self, settings: Settings, database_url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inference.worker"],
            cwd=ROOT,
            env=worker_environment(settings, database_url),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line.decode(errors="replace").rstrip())

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log's events; a line that is no JSON is under `raw`."""
        events = []
        for line in self.lines:
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError:
                events.append({"event": "", "raw": line})
        return events

    def said(self, event: str) -> bool:
        return any(entry["event"] == event for entry in self.log)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, wherever it is."""
        self.process.kill()
        self._end()

    def leave(self, seconds: float = 60) -> int:
        """Close its standard input, as the app's death does, and wait for it to go; returns the exit status."""
        self.process.stdin.close()
        try:
            return self.process.wait(seconds)
        finally:
            self.kill()

    def terminate(self, seconds: float = 60) -> int:
        """SIGTERM, and the exit status."""
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        finally:
            self.kill()

    def _end(self) -> None:
        self.process.wait()
        self._reader.join(5)
        for stream in (self.process.stdin, self.process.stderr):
            stream.close()
