"""How soon the supervisor knows, and what it costs: from "the server can answer" to `ready`, from a death to its being seen, idle CPU.

The servers are stand-ins that start, answer and die as SGLang does, so that eight of them fit on any machine; where the real
engine is installed, one start of it is measured as well. The supervisor runs in a process of its own with its everyday policy.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

import psutil
from sqlmodel import col, select

from bench.measure import ROOT, cpu_of
from db.engine import Database
from db.migrate import upgrade
from db.tables import Backend, BackendStart
from demo.checkpoint import is_built
from inference.backends.engine import install
from inference.backends.host.identity import Identity
from inference.backends.host.process import ServerProcess, wait_gone
from inference.backends.service import NewBackend, create_backend, get_backend, request_action
from inference.settings import Settings
from tests.support import fake_launcher

SERVERS = 8
IDLE_S = 60.0
SETTLE_S = 15.0
ROUNDS = 5
PATIENCE_S = 300.0
EVERY_S = 0.005


@dataclass
class Site:
    """A data directory, its database and the interpreter that servers run on."""

    settings: Settings
    database: Database
    model: Path
    made: list[int] = field(default_factory=list)
    count: int = 0

    def create(self, **launch: object) -> int:
        """A backend that is asked to start."""
        self.count += 1
        new = NewBackend(name=f"server-{self.count}", launch={"model_path": str(self.model), **launch})  # type: ignore[arg-type]
        with self.database.write() as s:
            backend_id = create_backend(s, self.settings, new, None).id or 0
            request_action(s, backend_id, "start")
        self.made.append(backend_id)
        return backend_id

    def row(self, backend_id: int) -> tuple[Backend, BackendStart | None]:
        """As it stands."""
        with self.database.read() as s:
            backend = get_backend(s, backend_id)
            return backend, s.get(BackendStart, backend.start_id) if backend.start_id else None

    def wait(self, backend_id: int, holds: Callable[[Backend], bool]) -> float:
        """When the row first said so, by the monotonic clock."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(self.row(backend_id)[0]):
            if time.monotonic() > deadline:
                row = self.row(backend_id)[0]
                raise TimeoutError(f"{row.name} is still {row.observed_state}: {row.message}")
            time.sleep(EVERY_S)
        return time.monotonic()

    def stop_all(self) -> None:
        """Ask all to stop, and wait until they have."""
        for backend_id in self.made:
            with self.database.write() as s:
                request_action(s, backend_id, "stop")
        for backend_id in self.made:
            self.wait(backend_id, lambda row: row.observed_state == "stopped")
        self.made.clear()


def report() -> None:
    """Measure and print."""
    with _fake_site() as site:
        with _process("bench.supervisor_alone", site) as supervisor:
            answering, seen = _latencies(site)
            print(f"from 'the server can answer' to `ready`: {_spread(answering)} ({ROUNDS} starts of a stand-in)")
            print(f"from a server's death to its being seen: {_spread(seen)} ({ROUNDS} kills)", flush=True)
            _fill(site)
            print(f"the supervisor alone, {SERVERS} idle servers: {_idle(supervisor):.2f} % of one core", flush=True)
        with _process("inference.worker", site) as worker:
            print(f"the whole worker, {SERVERS} idle servers, no run: {_idle(worker):.2f} % of one core", flush=True)
            site.stop_all()
    _real()


def _real() -> None:
    python = install.default_dir() / "bin" / "python"
    model = install.default_dir().parent / "models" / "demo"
    if install.installed(install.default_dir()) is None or not is_built(model):
        print("the real engine is not installed (`make engine`): its start was not measured")
        return
    with _site(python, model) as site, _process("bench.supervisor_alone", site):
        backend_id = site.create(device="cpu")
        opened = _until_it_can_answer(site, backend_id)
        ready = site.wait(backend_id, lambda row: row.observed_state == "ready")
        print(f"real SGLang on the CPU: `ready` {ready - opened:.2f} s after it could answer (one start)")
        site.stop_all()


def _latencies(site: Site) -> tuple[list[float], list[float]]:
    answering, seen = [], []
    backend_id = site.create()
    for number in range(ROUNDS):
        opened = _until_it_can_answer(site, backend_id)
        answering.append(site.wait(backend_id, lambda row: row.observed_state == "ready") - opened)
        start = site.row(backend_id)[1]
        assert start is not None
        assert start.pid is not None
        killed = time.monotonic()
        os.kill(start.pid, signal.SIGKILL)
        seen.append(site.wait(backend_id, lambda row: row.observed_state != "ready") - killed)
        with site.database.write() as s:
            request_action(s, backend_id, "start" if number + 1 < ROUNDS else "stop")  # not waiting for the back-off
    site.wait(backend_id, lambda row: row.observed_state == "stopped")
    site.made.clear()
    return answering, seen


def _until_it_can_answer(site: Site, backend_id: int) -> float:
    """When `/ready` first answered 200, asked from here."""
    site.wait(backend_id, lambda row: row.observed_state in {"starting", "loading", "warming_up"})
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        start = site.row(backend_id)[1]
        if start is not None and start.ended_at is None and start.port and _is_ready(start.port):
            return time.monotonic()
        time.sleep(EVERY_S)
    raise TimeoutError("no server ever answered")


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _fill(site: Site) -> None:
    for _ in range(SERVERS):
        site.create()
    for backend_id in site.made:
        site.wait(backend_id, lambda row: row.observed_state == "ready" and row.probe is not None)


def _idle(process: psutil.Process) -> float:
    time.sleep(SETTLE_S)
    before, at = cpu_of(process), time.monotonic()
    time.sleep(IDLE_S)
    return 100 * (cpu_of(process) - before) / (time.monotonic() - at)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} s (median; {min(values):.2f} to {max(values):.2f})"


@contextmanager
def _fake_site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="draftmill-bench-") as folder:
        python = fake_launcher.install(Path(folder) / "engine", load_s=0.5, warm_s=0.5)
        model = Path(folder) / "models" / "tiny"
        model.mkdir(parents=True)
        (model / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
        with _site(python, model) as site:
            yield site


@contextmanager
def _site(python: Path, model: Path) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="draftmill-bench-") as folder:
        settings = Settings(
            _env_file=None, data_dir=Path(folder) / "data", model_roots=[model.parent], sglang_python=python
        )
        settings.data_dir.mkdir()
        database = Database(settings.resolved_database_url)
        upgrade(database)
        site = Site(settings, database, model)
        try:
            yield site
        finally:
            _end_what_is_left(database)
            database.dispose()


def _end_what_is_left(database: Database) -> None:
    """After a measurement that broke off: servers outlive their supervisor."""
    with database.read() as s:
        starts = list(s.exec(select(BackendStart).where(col(BackendStart.ended_at).is_(None))))
    for start in starts:
        if start.pid is not None and start.pid_started is not None:
            left = ServerProcess.adopt(Identity(start.pid, start.pid_started), start.weight_version or "")
            if left is not None:
                wait_gone(left, 10.0)


@contextmanager
def _process(module: str, site: Site) -> Iterator[psutil.Process]:
    """The module over the site's data; what it started must have been stopped, or is to be taken over, when the block ends."""
    settings = site.settings
    child = subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env=os.environ
        | {
            "DRAFTMILL_DATA_DIR": str(settings.data_dir),
            "DRAFTMILL_MODEL_ROOTS": str(site.model.parent),
            "DRAFTMILL_SGLANG_PYTHON": str(settings.sglang_python),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield psutil.Process(child.pid)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait(60)


if __name__ == "__main__":
    report()
