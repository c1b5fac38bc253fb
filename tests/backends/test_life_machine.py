"""Whatever is done to a server and its supervisor, in any order.

One life at a time, no stranger touched, and in the end what was desired or a failure that says why. Everything is real but SGLang: the supervisor is a process that is killed with SIGKILL, the servers are processes, so is the
stranger whose pid is written where a dead server's stood.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlmodel import col, select

from db.engine import Database
from db.errors import Conflict
from db.migrate import upgrade
from db.tables import Backend, BackendStart
from inference.backends.host.identity import marker_of, session_of
from inference.backends.service import NewBackend, create_backend, get_backend, request_action
from inference.settings import Settings
from tests.support.fake_launcher import behave, install
from tests.support.worker_nursery import Nursery, NurseryWorker

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
BEHAVIOURS = {
    "well": {},
    "with a child": {"child": "follows"},
    "with a child that stays": {"child": "stays"},
    "slowly": {"load_s": 0.4, "warm_s": 0.2},
    "deaf to SIGTERM": {"ignore_term": True},
    "not past loading": {"hang_loading": True},
    "into a bad flag": {"say": ["launch_server.py: error: unrecognized arguments: --no-such-flag"], "exit": 2},
    "into a crash": {"say": ["Scheduler hit an exception: Traceback (most recent call last):"], "exit": -9},
}


class World:
    """What lives longer than one series of events: the imports, the nursery of supervisors."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="draftmill-lives-"))
        python = install(self.root / "engine")
        model = self.root / "models" / "tiny"
        model.mkdir(parents=True)
        (model / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
        self.settings = Settings(
            _env_file=None, data_dir=self.root / "data", model_roots=[model.parent], sglang_python=python
        )
        self.settings.data_dir.mkdir()
        self.model = model
        self.database = Database(self.settings.resolved_database_url)
        upgrade(self.database)
        self.nursery = Nursery(
            self.settings, self.settings.resolved_database_url, module="tests.support.supervisor_nursery"
        )

    def close(self) -> None:
        self.nursery.close()
        self.database.dispose()
        shutil.rmtree(self.root)


class Lives(RuleBasedStateMachine):
    """Two backends, a supervisor that comes and goes, and a stranger."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.supervisor: NurseryWorker | None = None
        self.sole = self.world.root / f"sole-{time.monotonic_ns()}"
        self.choose("well")
        with self.world.database.write() as s:
            new = [NewBackend(name=f"{self.sole.name}-{n}", launch={"model_path": str(self.world.model)}) for n in "ab"]
            self.backends = [create_backend(s, self.world.settings, one, None).id or 0 for one in new]
        self.stranger = subprocess.Popen(
            [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )

    which = st.integers(0, 1)

    @rule(how=st.sampled_from(sorted(BEHAVIOURS)))
    def choose(self, how: str) -> None:
        """How servers started from now on go."""
        self.steps.append(f"servers go {how}")
        behave(self.world.root / "engine", sole=str(self.sole), **BEHAVIOURS[how])

    @precondition(lambda self: self.supervisor is None)
    @rule()
    def begin_supervising(self) -> None:
        self.steps.append("a supervisor begins")
        self.supervisor = self.world.nursery.start()

    @precondition(lambda self: self.supervisor is not None)
    @rule()
    def kill_the_supervisor(self) -> None:
        assert self.supervisor is not None
        self.steps.append("the supervisor is killed")
        assert self.supervisor.alive, self.supervisor.lines
        self.supervisor.kill()
        self.supervisor = None

    @rule(which=which, action=st.sampled_from(["start", "stop", "restart", "kill"]))
    def ask(self, which: int, action: str) -> None:
        self.steps.append(f"{which}: {action}")
        try:
            with self.world.database.write() as s:
                request_action(s, self.backends[which], action)
        except Conflict:
            return

    @rule(which=which)
    def kill_the_server(self, which: int) -> None:
        """From outside, the main process alone."""
        self.steps.append(f"{which}: its server is killed")
        start = self.start_of(which)
        if start is not None and start.pid is not None and marker_of(start.pid) == start.weight_version:
            os.kill(start.pid, signal.SIGKILL)

    @rule(seconds=st.sampled_from([0.02, 0.1, 0.3, 0.8]))
    def let_time_pass(self, seconds: float) -> None:
        self.steps.append(f"{seconds} s pass")
        time.sleep(seconds)

    @precondition(lambda self: self.supervisor is None)
    @rule(which=which)
    def give_its_pid_to_a_stranger(self, which: int) -> None:
        """It died while nobody watched, and its number was taken by somebody else."""
        start = self.start_of(which)
        if start is None or start.ended_at is not None or start.pid is None:
            return
        self.kill_the_server(which)
        with self.world.database.write() as s:
            row = s.get(BackendStart, start.id)
            assert row is not None
            row.pid = self.stranger.pid
        self.steps.append(f"{which}: a stranger has its pid")

    @rule()
    def see_it_through(self) -> None:
        """Given a supervisor and time, every backend is as desired, or says why it is not."""
        if self.supervisor is None:
            self.begin_supervising()
        self.steps.append("seen through")
        for number in self.backends:
            self.wait(number)

    @invariant()
    def one_life_at_a_time(self) -> None:
        overlaps = [path.read_text() for path in self.world.root.glob(f"{self.sole.name}*.overlap")]
        assert overlaps == [], self.steps
        leaders: dict[str, list[int]] = {}
        for pid in psutil.pids():
            marker = marker_of(pid)
            if marker and session_of(pid) == pid:
                leaders.setdefault(marker, []).append(pid)
        for number in self.backends:
            with self.world.database.read() as s:
                markers = set(s.exec(select(BackendStart.weight_version).where(col(BackendStart.backend_id) == number)))
            assert len([pid for marker in markers for pid in leaders.get(marker or "", [])]) <= 1, self.steps

    @invariant()
    def the_stranger_lives(self) -> None:
        assert self.stranger.poll() is None, self.steps

    def start_of(self, which: int) -> BackendStart | None:
        with self.world.database.read() as s:
            backend = get_backend(s, self.backends[which])
            return s.get(BackendStart, backend.start_id) if backend.start_id else None

    def wait(self, backend_id: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with self.world.database.read() as s:
                row = get_backend(s, backend_id)
            if self.settled(row):
                return
            self.one_life_at_a_time()
            time.sleep(0.02)
        raise AssertionError(
            f"{row.desired_state}, still {row.observed_state}: {row.message} {row.evidence} {self.steps}"
        )

    def settled(self, row: Backend) -> bool:
        if row.restart_requested or row.kill_requested:
            return False
        if row.desired_state == "stopped":
            return row.observed_state == "stopped"
        if (
            row.observed_state == "loading"
        ):  # a server that does not get past loading is waited for, and says where it is
            return "oading weights" in row.message
        if row.observed_state == "failed":
            assert row.error is not None
            assert row.error["summary"] in row.message
        return row.observed_state in {"ready", "failed"}

    def teardown(self) -> None:
        self.choose("well")
        try:
            for which in (0, 1):
                self.ask(which, "stop")
            self.see_it_through()
            self.one_life_at_a_time()
            self.the_stranger_lives()
            assert self.marked() == [], "something was left behind"
        finally:
            if self.supervisor is not None:
                self.supervisor.kill()
            for pid in self.marked():
                os.kill(pid, signal.SIGKILL)
            assert self.stranger.stdin is not None
            self.stranger.stdin.close()
            self.stranger.wait()
            with self.world.database.write() as s:
                for number in self.backends:
                    s.delete(get_backend(s, number))

    def marked(self) -> list[int]:
        with self.world.database.read() as s:
            query = select(BackendStart.weight_version).where(col(BackendStart.backend_id).in_(self.backends))
            markers = set(s.exec(query))
        return [pid for pid in psutil.pids() if (marker := marker_of(pid)) is not None and marker in markers]


@pytest.mark.timeout(900)
def test_in_any_order_there_is_one_life_at_a_time_no_stranger_is_touched_and_the_desired_state_comes_back() -> None:
    Lives.world = World()
    try:
        run_state_machine_as_test(
            Lives,
            settings=settings(
                max_examples=int(os.environ.get("DRAFTMILL_LIVES", "8")),
                stateful_step_count=16,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],  # processes take their own time: a series does not go the same way twice
                report_multiple_bugs=False,
            ),
        )
    finally:
        Lives.world.close()
