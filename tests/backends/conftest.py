"""A supervisor over real processes and a real database, hurried: `lab` starts it, asks for actions, and waits for states."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from db.engine import Database
from db.stores import open_id_store
from db.tables import Backend, BackendStart
from inference.backends.host import litter
from inference.backends.host.identity import marker_of
from inference.backends.server.client import SglangClient
from inference.backends.service import NewBackend, create_backend, get_backend, request_action
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.supervisor import Supervisor
from inference.context import Context
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.support.fake_launcher import behave, install

HURRIED = Policy(
    tick_s=0.05,
    moving_look_s=0.03,
    steady_look_s=0.05,
    starting_check_s=0.1,
    warming_check_s=0.05,
    health_s=0.2,
    sick_health_s=0.1,
    health_timeout_s=5.0,
    canary_s=0.3,
    canary_timeout_s=2.0,
    first_generate_s=10.0,
    attached_generate_s=10.0,
    figures_s=0.1,
    idle_figures_s=0.2,
    drain_look_s=0.05,
    kill_after_s=1.5,
    kill_deadline_s=10.0,
    backoff_s=(0.1, 0.1),
    attached_check_s=0.2,
    refresh_s=0.5,
    leftovers_s=1.0,
    clean_s=0.2,
    cap_s=0.2,
)
PATIENCE_S = 60.0


async def passing_probe(client: SglangClient, row: Backend) -> dict[str, Any]:
    return {"ok": True, "refusals": [], "notes": [], "checks": []}


class Lab:
    """One data directory with a fake SGLang interpreter and a model folder."""

    def __init__(self, settings: Settings, database: Database, tmp_path: Path) -> None:
        self.engine = tmp_path / "engine"
        python = install(self.engine)
        self.model = settings.model_roots[0] / "tiny"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
        self.db = database
        self.ids = open_id_store(database, settings.data_dir)
        self.patience_s = PATIENCE_S
        self.use(settings.model_copy(update={"sglang_python": python}), self.model)
        self.markers: set[str] = set()
        self.seen: list[tuple[str, str]] = []

    def use(self, settings: Settings, model: Path) -> None:
        """Other settings and another model from here on."""
        self.settings, self.model = settings, model
        self.ctx = Context(settings, self.db, self.ids, TokenizerCache(settings.model_roots, False))

    def behave(self, **behaviour: object) -> None:
        behave(self.engine, **behaviour)

    def use_whole_fake(self, script: dict[str, Any]) -> None:
        """The fake that answers as recorded, as the interpreter: slower to start, but it has requests in flight."""
        rules = self.engine / "script.json"
        rules.write_text(json.dumps(script))
        python = self.engine / "python"
        python.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = "-I" ]; then exit 0; fi\n'
            "shift 2\n"
            f'PYTHONPATH="{Path.cwd()}" exec "{sys.executable}" -m tests.support.fake_sglang --script "{rules}" "$@"\n'
        )

    def create(self, name: str = "one", **launch: object) -> int:
        new = NewBackend(name=name, launch={"model_path": str(self.model), **launch})
        with self.db.write() as s:
            return create_backend(s, self.settings, new, None).id or 0

    def attach(self, url: str, api_key: str | None = None, name: str = "far") -> int:
        with self.db.write() as s:
            return (
                create_backend(
                    s, self.settings, NewBackend(name=name, kind="attached", url=url, api_key=api_key), None
                ).id
                or 0
            )

    def ask(self, backend_id: int, action: str) -> None:
        with self.db.write() as s:
            request_action(s, backend_id, action)

    def row(self, backend_id: int) -> Backend:
        with self.db.read() as s:
            return get_backend(s, backend_id)

    def start_row(self, backend_id: int) -> BackendStart:
        with self.db.read() as s:
            backend = get_backend(s, backend_id)
            start = s.get(BackendStart, backend.start_id)
            assert start is not None
            self.markers.add(start.weight_version or "")
            return start

    def start(self, start_id: int) -> BackendStart:
        """A start, whichever."""
        with self.db.read() as s:
            return s.get_one(BackendStart, start_id)

    def wait(self, backend_id: int, wanted: str | Callable[[Backend], object]) -> Backend:
        """Until the observed state, or the condition, holds."""
        deadline = time.monotonic() + self.patience_s
        while time.monotonic() < deadline:
            row = self.row(backend_id)
            if not self.seen or self.seen[-1] != (row.observed_state, row.message):
                self.seen.append((row.observed_state, row.message))
            if row.observed_state == wanted if isinstance(wanted, str) else wanted(row):
                if row.start_id is not None:
                    self.start_row(backend_id)
                return row
            time.sleep(0.02)
        row = self.row(backend_id)
        raise AssertionError(f"still {row.observed_state}: {row.message} {row.evidence} {row.error}")

    @contextmanager
    def supervising(self, policy: Policy = HURRIED, **arguments: Any) -> Iterator[None]:
        """A supervisor in a thread with a loop of its own; leaving lets go of the servers."""
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()
        supervisor = Supervisor(self.ctx, policy, arguments.pop("prober", passing_probe))
        crashed: list[BaseException] = []

        def run() -> None:
            try:
                loop.run_until_complete(supervisor.run(stop))
                loop.run_until_complete(loop.shutdown_default_executor())
            except BaseException as error:  # noqa: BLE001  (handed to the test, whatever it is)
                crashed.append(error)
            finally:
                loop.close()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(self.patience_s)
            assert not thread.is_alive()
            assert crashed == []

    def tree(self, backend_id: int) -> list[psutil.Process]:
        """Every living process of the backend's last start, found by its marker."""
        marker = self.start_row(backend_id).weight_version
        return [process for process in psutil.process_iter() if _lives(process) and marker_of(process.pid) == marker]

    def clean(self) -> None:
        """Kill what a failed test left; each is known by the marker of a start of this very lab."""
        with self.db.read() as s:
            from sqlmodel import select

            self.markers |= {start.weight_version or "" for start in s.exec(select(BackendStart))}
        for process in psutil.process_iter():
            if marker_of(process.pid) in self.markers - {""}:
                process.kill()
        from inference.backends.host import process as processes

        for pid, child in list(processes._children.items()):
            child.wait(10)
            processes._children.pop(pid, None)
        for marker in self.markers:
            litter.sweep(marker)
        self.ids.close()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.fixture
def lab(settings: Settings, sqlite_database: Database, tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(settings, sqlite_database, tmp_path)
    yield lab
    lab.clean()
