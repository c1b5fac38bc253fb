"""One real SGLang server through every fault that can be done to it: each ends in the state and the sentence that are true.

The faults follow one another on one server, which the supervisor starts again after each: a start takes half a minute.
"""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest
from sqlmodel import col, select

from db.engine import Database
from db.tables import Backend, BackendEvent, BackendStart
from inference.backends.host import litter
from inference.backends.host.identity import marker_of
from inference.backends.launch.ports import is_free
from inference.backends.logs.reading import read_tail
from inference.backends.supervision.policy import Policy
from inference.settings import Settings
from tests.backends.conftest import Lab
from tests.support import engine

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_S = 280.0
POLICY = Policy(backoff_s=(1.0,), steady_s=0.0, health_s=2.0, canary_s=3.0, canary_timeout_s=5.0, leftovers_s=2.0)
"""A crash of a server that was ready is never the last straw."""

LONG = 1500
"""Tokens of an answer that is still being written when the fault comes: a minute and more of work."""


class House:
    """One lab with the real engine, one backend, and a supervisor that can be sent away and come back."""

    def __init__(self, lab: Lab, stack: ExitStack) -> None:
        self.lab = lab
        self._stack = stack
        self._pool = stack.enter_context(ThreadPoolExecutor(8))
        self._supervision = ExitStack()
        self._shared_before = shared_files()
        self.id = lab.create(device="cpu", max_running_requests=8)

    def supervise(self) -> None:
        """A new supervisor; the one before lets go."""
        self._supervision.close()
        self._supervision.enter_context(self.lab.supervising(POLICY, prober=None))

    def close(self) -> None:
        """Send the supervisor away."""
        self._supervision.close()

    def ready(self) -> tuple[Backend, BackendStart]:
        """The ready server, started where it was not asked for yet."""
        if self.lab.row(self.id).desired_state != "running":
            self.lab.ask(self.id, "start")
        return self.lab.wait(self.id, "ready"), self.lab.start_row(self.id)

    def again(self, before: BackendStart) -> BackendStart:
        """The ready server after another start; what the one before left is looked for."""
        self.lab.wait(self.id, lambda row: row.observed_state == "ready" and row.start_id != before.id)
        self.nothing_is_left_of(before)
        return self.lab.start_row(self.id)

    def crashed(self, before: BackendStart) -> Backend:
        """The row as the end of `before` was told."""
        return self.lab.wait(self.id, lambda row: row.observed_state == "backoff" and row.start_id == before.id)

    def ask(self, tokens: int) -> "Future[httpx.Response]":
        """Send a request whose answer has so many tokens."""
        row = self.lab.row(self.id)
        asked = {
            "rid": f"ours-{os.urandom(6).hex()}",
            "input_ids": [504, 253, 1412],
            "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True},
        }
        headers = {"Authorization": f"Bearer {row.api_key}"}
        return self._pool.submit(httpx.post, f"{row.url}/generate", json=asked, headers=headers, timeout=200.0)

    def in_flight(self, tokens: int = LONG, count: int = 1) -> "list[Future[httpx.Response]]":
        """Requests that the server is working on now."""
        answers = [self.ask(tokens) for _ in range(count)]
        self.lab.wait(self.id, lambda row: _running(row) >= count)
        return answers

    def child(self, named: str) -> psutil.Process:
        """A process of the server's tree."""
        (found,) = (one for one in self.lab.tree(self.id) if named in " ".join(one.cmdline()))
        return found

    def nothing_is_left_of(self, start: BackendStart) -> None:
        """No process that bears its marker, no zombie, no listener on its port, no file with its key."""
        assert [one for one in psutil.process_iter() if marker_of(one.pid) == start.weight_version] == []
        assert not psutil.pid_exists(start.pid or 0)
        assert is_free(start.port or 0)
        assert not Path(start.log_path or "").with_suffix(".yaml").exists()

    def events(self) -> list[str]:
        """What kinds of things happened."""
        with self.lab.db.read() as s:
            return list(s.exec(select(BackendEvent.kind).where(BackendEvent.backend_id == self.id)))

    def litter(self) -> set[str]:
        """Temporary folders of our starts, and shared memory of servers that was not there before."""
        return {*litter.markers(self.lab.settings.data_dir), *(shared_files() - self._shared_before)}


def shared_files() -> set[str]:
    """Files in shared memory that are named as SGLang and its processes name theirs."""
    shared = Path("/dev/shm")  # noqa: S108  (looked at, not used)
    return {file.name for pattern in ("sglang_loads_*", "sem.mp-*") for file in shared.glob(pattern)}


def _running(row: Backend) -> int:
    headers = {"Authorization": f"Bearer {row.api_key}"}
    try:
        loads = httpx.get(f"{row.url}/v1/loads?include=core", headers=headers, timeout=10.0).json()["loads"]
    except (httpx.HTTPError, KeyError):
        return 0
    return sum(load["num_running_reqs"] for load in loads)


@pytest.fixture(scope="module")
def house(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    python, model = engine.engine_python(), engine.demo_model()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in Settings.model_fields:
            patch.delenv(f"DRAFTMILL_{name.upper()}", raising=False)
        (folder / "data").mkdir()
        (folder / "models").mkdir()
        shutil.copyfile(sqlite_template, folder / "data" / "draftmill.sqlite")
        database = Database(f"sqlite:///{folder / 'data' / 'draftmill.sqlite'}")
        stack.callback(database.dispose)
        settings = Settings(
            _env_file=None, data_dir=folder / "data", model_roots=[folder / "models", model.parent], port=0
        )
        lab = Lab(settings, database, folder)
        stack.callback(lab.clean)
        lab.use(settings.model_copy(update={"sglang_python": python}), model)
        lab.patience_s = PATIENCE_S
        made = House(lab, stack)
        stack.callback(made.close)
        made.supervise()
        yield made


def test_a_port_taken_between_our_check_and_the_bind_is_told_and_the_next_start_takes_another(house: House) -> None:
    lab = house.lab
    lab.ask(house.id, "start")
    lab.wait(house.id, lambda row: row.start_id is not None and lab.start_row(house.id).pid)
    first = lab.start_row(house.id)
    with socket.create_server(("127.0.0.1", first.port or 0)):  # SGLang binds only once the model is loaded
        row = house.crashed(first)
        assert row.error is not None
        assert row.error["code"] == "port_in_use"
        assert f"port {first.port} is held by" in row.message
        assert any("Errno 98" in line for line in row.error["lines"])
        assert "ready" not in {state for state, _ in lab.seen}
        lab.wait(house.id, lambda row: row.start_id != first.id)
        assert lab.start_row(house.id).port != first.port
    house.again(first)


def test_every_phase_of_a_start_is_seen_and_the_log_shows_no_key(house: House) -> None:
    row, start = house.ready()
    names = [phase["name"] for phase in start.phases]
    expected = ["spawned", "initialising", "loading weights", "memory pool", "warm-up", "fired up"]
    assert [name for name in names if name in expected] == expected, "on a CPU there are no graphs to capture"
    times = [phase["at"] for phase in start.phases]
    assert times == sorted(times)
    shards = next(phase for phase in start.phases if phase["name"] == "loading weights")
    assert (shards["done"], shards["total"]) == (1, 1)
    assert row.version
    assert row.server_info
    assert row.server_info["weight_version"] == start.weight_version
    raw = Path(start.log_path or "").read_text(errors="replace")
    assert row.api_key
    assert row.api_key in raw, "SGLang prints its arguments"
    shown = read_tail(house.lab.settings, start, 100_000)
    assert row.api_key not in shown
    assert "fired up" in shown
    assert not Path(start.log_path or "").with_suffix(".yaml").exists(), "the key lies in a file only while it starts"


def test_a_ready_server_is_probed_and_passes(house: House) -> None:
    row = house.lab.wait(house.id, lambda row: row.probe)
    assert row.probe is not None
    assert row.probe["ok"], row.probe["refusals"]
    assert row.probe["three_ways"] is not None


def test_a_stopped_scheduler_is_hung_not_dead_and_comes_back_by_itself(house: House) -> None:
    _, start = house.ready()
    scheduler = house.child("scheduler")
    scheduler.send_signal(signal.SIGSTOP)
    try:
        row = house.lab.wait(house.id, "unresponsive")
        assert "Nothing is killed" in row.message
        assert row.crashes == 0
        assert len(house.lab.tree(house.id)) >= 3
    finally:
        scheduler.send_signal(signal.SIGCONT)
    house.lab.wait(house.id, "ready")
    assert house.lab.start_row(house.id).pid == start.pid


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in_flight"])
@pytest.mark.parametrize("part", ["scheduler", "detokenizer", "main"])
def test_a_killed_part_is_named_no_client_is_left_waiting_and_the_server_starts_again(
    house: House, part: str, busy: bool
) -> None:
    _, start = house.ready()
    answers = house.in_flight() if busy else []
    victim = psutil.Process(start.pid) if part == "main" else house.child(part)
    victim.kill()
    row = house.crashed(start)
    assert row.error is not None
    if part == "main":
        assert row.error["code"] == "killed"
        assert "killed from outside" in row.error["summary"]
    else:
        assert row.error["code"] == "child_killed"
        assert part in row.error["summary"]
        assert any("crashed with exit code -9" in line for line in row.error["lines"])
    for answer in answers:
        with pytest.raises(httpx.TransportError):
            answer.result(60)
    house.again(start)
    assert house.lab.start(start.id or 0).exit_code == -signal.SIGKILL


def test_a_supervisor_that_comes_back_takes_the_server_its_requests_and_its_log(house: House) -> None:
    _, start = house.ready()
    (answer,) = house.in_flight(tokens=60)
    house.supervise()
    house.lab.wait(house.id, lambda _: house.events().count("adopted") == 1)
    assert answer.result(120).json()["meta_info"]["completion_tokens"] == 60
    row, after = house.ready()
    assert (after.id, after.pid) == (start.id, start.pid)
    assert row.crashes == 0
    assert "fired up" in read_tail(house.lab.settings, after, 100_000)


def test_a_stop_lets_requests_in_flight_finish_and_proves_the_end(house: House) -> None:
    _, start = house.ready()
    answers = house.in_flight(tokens=40, count=2)
    house.lab.ask(house.id, "stop")
    house.lab.wait(house.id, "draining")
    row = house.lab.wait(house.id, "stopped")
    assert [answer.result(10).json()["meta_info"]["finish_reason"]["type"] for answer in answers] == ["length"] * 2
    assert "exit code 0" in row.message
    assert "No process of its tree is left" in row.message
    assert f"port {start.port} is free" in row.message
    house.nothing_is_left_of(start)
    with house.lab.db.read() as s:
        unended = s.exec(select(BackendStart).where(col(BackendStart.ended_at).is_(None))).all()
    assert list(unended) == []


def test_nothing_of_all_these_starts_stays_on_disk_or_in_shared_memory(house: House) -> None:
    """A killed server removes neither its temporary files nor its shared memory."""
    house.lab.wait(house.id, lambda _: not house.litter())
