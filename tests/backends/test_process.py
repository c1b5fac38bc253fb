"""Processes and ports by themselves: who is who, the worker's end, what is free."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.backends.host.identity import Identity, find_leader, identity_of, is_alive, marker_of
from inference.backends.host.process import ServerProcess, ask_interpreter, spawn_worker, wait_gone

PYTHON = Path(sys.executable)
SLEEP = [sys.executable, "-c", "import time; time.sleep(120)"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    env = {**os.environ, "DRAFTMILL_START": "marker-of-this-test"}
    process = ServerProcess.spawn(SLEEP, env, log=tmp_path / "log", cwd=tmp_path, marker="marker-of-this-test")
    yield process
    process.kill_tree()
    while process.alive():
        time.sleep(0.01)
    process.reap()
    process.close()


def _until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_is_known_by_pid_start_time_and_marker(server: ServerProcess) -> None:
    _until(lambda: marker_of(server.identity.pid) == "marker-of-this-test")  # it has become what it was started as
    assert is_alive(server.identity)
    assert not is_alive(Identity(server.identity.pid, server.identity.started - 100))
    assert find_leader("marker-of-this-test") == server.identity
    assert find_leader("another-marker") is None
    assert ServerProcess.adopt(server.identity, "another-marker") is None
    taken = ServerProcess.adopt(server.identity, "marker-of-this-test")
    assert taken is not None
    assert taken.alive()
    assert taken.is_child
    taken.close()


def test_a_stranger_with_the_pid_of_a_server_of_the_same_second_is_not_taken_for_it() -> None:
    """Start times are compared with a tolerance, since clocks are set; an environment without our marker decides."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as other:
        identity = identity_of(other.pid)
        assert identity is not None
        assert ServerProcess.adopt(identity, "draftmill-00000000-1-1-0123456789abcdef") is None
        other.communicate(b"\n")


def test_the_end_of_a_child_is_seen_and_its_code_kept(server: ServerProcess) -> None:
    assert server.reap() is None
    assert server.terminate()
    _until(lambda: not server.alive())
    assert wait_gone(server, 5) == []
    assert server.reap() == -15
    assert identity_of(server.identity.pid) is None
    assert not server.terminate()


def test_the_request_to_end_goes_to_the_main_process_alone(tmp_path: Path) -> None:
    """SGLang takes a worker that ends before it was told to for a crash, and then drains nothing."""
    child = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: print('hit', flush=True)); print('up', flush=True); "
        "sys.stdin.read(); print('let go', flush=True)"
    )
    main = (
        "import signal, subprocess, sys, threading; told = threading.Event(); signal.signal(signal.SIGTERM, lambda *_: told.set()); "
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {child!r}], stdin=subprocess.PIPE); told.wait(); "
        "child.communicate(); sys.exit(0)"
    )
    log = tmp_path / "log"
    process = ServerProcess.spawn(
        [sys.executable, "-S", "-c", main], os.environ, log=log, cwd=tmp_path, marker="draftmill-test"
    )
    _until(lambda: log.exists() and log.read_text() == "up\n")
    assert process.terminate()
    _until(lambda: not process.alive())
    assert wait_gone(process, 5) == []
    assert process.reap() == 0
    assert log.read_text() == "up\nlet go\n"
    process.close()


def test_a_worker_ends_when_its_stdin_closes(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "worker.log"
    code = "import sys; print('up', flush=True); sys.stdin.read(); print('eof'); sys.exit(7)"
    worker = spawn_worker([sys.executable, "-c", code], os.environ, log)
    _until(lambda: log.read_text() == "up\n")
    assert worker.poll() is None
    assert worker.stop(30) == 7
    assert log.read_text() == "up\neof\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_worker_ends_with_us_even_when_we_are_killed(tmp_path: Path) -> None:
    alive = tmp_path / "pid"
    code = f"""
import os, sys, time
from inference.backends.host.process import spawn_worker
script = "import sys; sys.stdin.read()"
worker = spawn_worker([sys.executable, "-c", script], os.environ, None)
open({str(alive)!r}, "w").write(str(worker.pid))
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": "."})
    pid = int(alive.read_text())
    _until(lambda: identity_of(pid) is None)


def test_a_worker_that_does_not_end_is_killed() -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(120)"
    )
    worker = spawn_worker([sys.executable, "-c", code], os.environ, Path(os.devnull))
    assert worker.stop(0.2) in {-9, -15}


def test_an_interpreter_that_hangs_or_is_none_is_told() -> None:
    assert ask_interpreter(PYTHON, "print('x')") == (0, "x\n")
    code, said = ask_interpreter(PYTHON, "import time; time.sleep(60)", timeout_s=0.2)
    assert (code, said) == (-1, "no answer within 0 s")
    with pytest.raises(OSError):
        ask_interpreter(Path("/nonexistent/python"), "")
