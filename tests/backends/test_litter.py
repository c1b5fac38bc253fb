"""What killed servers leave: a start's own temporary folder, and shared memory that was noted while it lived. Nothing else goes."""

import asyncio
import mmap
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from db.engine import Database
from db.tables import Backend, BackendStart
from db.types import now
from inference.backends.host import litter
from inference.backends.host.identity import START_VARIABLE, Identity, Marker, instance_of, new_marker
from inference.backends.host.leftovers import MarkedProcess, MarkedTree
from inference.backends.supervision import life, tending
from inference.backends.supervision.leftovers import Leftovers, Patience
from inference.backends.supervision.litter import Litter
from inference.settings import Settings
from tests.backends.conftest import Lab

SERVER = """
import mmap, multiprocessing, socket, sys, tempfile, time
semaphore = multiprocessing.get_context("spawn").Semaphore()
with open(sys.argv[1], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 0)
name = tempfile.NamedTemporaryFile(delete=False).name
ipc = socket.socket(socket.AF_UNIX)
ipc.bind(name + ".sock")
print(semaphore._semlock.name.removeprefix("/"), flush=True)
multiprocessing.resource_tracker.unregister(semaphore._semlock.name, "semaphore")
time.sleep(300)
"""

Serve = Callable[[str, Path], "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def temporary_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A common temporary folder of the test's own, of a short path, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="l") as folder:
        monkeypatch.setattr(litter, "root", lambda: Path(folder))
        yield Path(folder)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A file in shared memory, as SGLang makes one."""
    file = litter.SHARED / f"sglang_loads_test_{secrets.token_hex(4)}.shm"
    file.write_bytes(bytes(4096))
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a process that litters as a server does."""
    started: list[subprocess.Popen[bytes]] = []

    def served(marker: str, shared: Path) -> "subprocess.Popen[bytes]":
        env = {**os.environ, START_VARIABLE: marker, **litter.temporary(marker, os.environ)}
        child = subprocess.Popen([sys.executable, "-c", SERVER, str(shared)], env=env, stdout=subprocess.PIPE)
        started.append(child)
        assert child.stdout is not None
        child.semaphore = litter.SHARED / f"sem.{child.stdout.readline().decode().strip()}"
        return child

    yield served
    for child in started:
        child.kill()
        child.wait(10)
        assert child.stdout is not None
        child.stdout.close()


def _start(database: Database, marker: str, **columns: object) -> None:
    with database.write() as s:
        backend = Backend(name=marker[-8:], kind="managed")
        s.add(backend)
        s.flush()
        s.add(BackendStart(backend_id=backend.id, number=1, weight_version=marker, **columns))


def _tidy(database: Database, settings: Settings) -> None:
    asyncio.run(Leftovers(database, settings, Patience(grace_s=3600)).step())


def test_all_that_a_killed_server_left_is_swept_once_it_is_gone(
    database: Database, settings: Settings, serve: Serve, shared: Path
) -> None:
    marker = new_marker(settings.data_dir, 1, 1)
    server = serve(marker, shared)
    folder = litter.folder_of(marker)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sum(path.is_socket() for path in folder.iterdir()) == 1
    _start(database, marker, ended_at=now())
    _tidy(database, settings)
    assert folder.exists()  # it lives
    assert shared.exists()
    assert server.semaphore.exists()
    server.kill()
    server.wait(10)
    _tidy(database, settings)
    assert not folder.exists()
    assert not shared.exists()
    assert not server.semaphore.exists()


def test_a_start_that_is_not_over_keeps_its_folder(database: Database, settings: Settings) -> None:
    running, unknown = new_marker(settings.data_dir, 1, 1), new_marker(settings.data_dir, 1, 2)
    for marker in (running, unknown):
        assert litter.temporary(marker, {})
    _start(database, running)
    _tidy(database, settings)
    assert set(litter.markers(settings.data_dir)) == {running, unknown}
    Litter(database, settings, unknown_s=0.0).tidy([])
    assert set(litter.markers(settings.data_dir)) == {running}


def test_a_process_is_looked_into_more_seldom_as_it_grows_old(
    sqlite_database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looked = [1_000.0], []
    monkeypatch.setattr("inference.backends.supervision.litter.time.time", lambda: clock[0])
    monkeypatch.setattr(litter, "note_shared", lambda _, pids: looked.append((clock[0], list(pids))))
    marker = new_marker(settings.data_dir, 1, 1)
    process = MarkedProcess(Identity(os.getpid(), 1_000.0), "x", None)
    tree = MarkedTree(marker, Marker(instance_of(settings.data_dir), 1, 1), True, (process,))
    keeper = Litter(sqlite_database, settings)
    for clock[0] in range(1_000, 1_500, 10):
        keeper.tidy([tree])
    assert [at - 1_000 for at, _ in looked] == [0, 30, 60, 120, 240, 480]
    keeper.tidy([])
    keeper.tidy([tree])  # as one that is new
    assert len(looked) == 7


def test_what_another_process_has_mapped_or_was_made_anew_stays(settings: Settings, serve: Serve, shared: Path) -> None:
    marker = new_marker(settings.data_dir, 1, 1)
    server = serve(marker, shared)
    litter.note_shared(marker, [server.pid])
    server.kill()
    server.wait(10)
    with shared.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert litter.sweep(marker) == [str(server.semaphore), str(litter.folder_of(marker))]
    assert shared.exists()

    again = new_marker(settings.data_dir, 1, 2)
    server = serve(again, shared)
    litter.note_shared(again, [server.pid])
    server.kill()
    server.wait(10)
    keep = shared.with_name(shared.name + ".old")
    shared.rename(keep)  # so that its inode is not given to the new one
    try:
        shared.write_bytes(bytes(4096))
        litter.sweep(again)
        assert shared.exists()
    finally:
        keep.unlink()


def test_a_note_names_nothing_but_what_servers_make(settings: Settings, tmp_path: Path) -> None:
    marker = new_marker(settings.data_dir, 1, 1)
    litter.temporary(marker, {})
    other = litter.SHARED / f"of-somebody-{secrets.token_hex(4)}"
    other.write_bytes(bytes(4096))
    try:
        note = litter.folder_of(marker) / litter._NOTE
        note.write_text(f'{{"{other.name}": {other.stat().st_ino}, "../../{tmp_path}": 1}}')
        with other.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            litter.note_shared(marker, [os.getpid()])
            assert other.name not in litter._noted(litter.folder_of(marker))
        litter.sweep(marker)
        assert other.exists()
    finally:
        other.unlink()


def test_a_link_in_place_of_the_folder_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    marker = new_marker(settings.data_dir, 1, 1)
    (tmp_path / "precious").mkdir()
    litter.folder_of(marker).symlink_to(tmp_path / "precious")
    assert litter.temporary(marker, {}) == {}
    assert list(litter.markers(settings.data_dir)) == []
    assert litter.sweep(marker) == []
    assert (tmp_path / "precious").exists()


def test_a_path_too_long_for_sockets_is_not_used(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr(litter, "root", lambda: deep)
    assert litter.temporary(new_marker(settings.data_dir, 1, 1), {}) == {}
    assert list(deep.iterdir()) == []


def test_sockets_fit_and_what_torch_compiled_is_kept_in_common(settings: Settings, temporary_root: Path) -> None:
    env = litter.temporary(new_marker(settings.data_dir, 123_456_789, 123_456_789), {})
    with socket.socket(socket.AF_UNIX) as ipc:
        ipc.bind(str(Path(env["TMPDIR"]) / "tmpxxxxxxxx"))
    assert Path(env["TORCHINDUCTOR_CACHE_DIR"]).parent == temporary_root
    kept = litter.temporary(new_marker(settings.data_dir, 1, 2), {"TORCHINDUCTOR_CACHE_DIR": "/somewhere"})
    assert kept["TORCHINDUCTOR_CACHE_DIR"] == "/somewhere"


def test_a_killed_server_leaves_nothing_in_the_temporary_folder(lab: Lab, temporary_root: Path) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        start = lab.start_row(one)
        folder = litter.folder_of(start.weight_version or "")
        environment = Path(f"/proc/{start.pid}/environ").read_bytes().split(b"\0")
        assert b"TMPDIR=" + os.fsencode(folder) in environment
        (folder / "ipc-socket").touch()
        os.kill(start.pid or 0, signal.SIGKILL)
        lab.wait(one, lambda row: row.observed_state == "ready" and row.start_id != start.id)
        assert not folder.exists()
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
        assert list(temporary_root.iterdir()) == []


def test_what_it_shares_is_noted_just_before_it_is_killed_however_young(
    lab: Lab, temporary_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is given up while it starts makes its last shared memory after our last look."""
    noted: list[list[int]] = []
    monkeypatch.setattr(life, "note_shared", lambda _marker, pids: noted.append(list(pids)))
    monkeypatch.setattr(tending, "_REMEMBER_S", 3600.0)
    lab.behave(hang_loading=True, child="stays")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "loading")
        tree = {process.pid for process in lab.tree(one)}
        assert len(tree) == 2
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
    assert tree <= set(noted[-1])
    assert list(temporary_root.iterdir()) == []
