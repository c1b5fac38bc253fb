"""What servers left: found by its marker, shown, and cleaned by a person's order alone. Real processes, both databases."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from sqlmodel import select

from db.engine import Database
from db.errors import Conflict, NotFound
from db.tables import Backend, BackendEvent, BackendStart, Leftover
from db.types import now
from inference.backends import machine
from inference.backends.host import gpus, process
from inference.backends.host import leftovers as host
from inference.backends.host.identity import START_VARIABLE, Identity, identity_of, new_marker
from inference.backends.supervision.leftovers import Leftovers, Patience
from inference.settings import Settings
from tests.support.fake_nvml import Device, FakeNvml

AT_ONCE = Patience(grace_s=0.0)
TREE = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(300)"], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(300)
"""

Spawn = Callable[[str], tuple[int, int]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start a process with a marker, the leader of its session, and a child of it; returns both pids, both up."""
    started: list[tuple[subprocess.Popen[bytes], Identity]] = []

    def spawned(marker: str) -> tuple[int, int]:
        env = {**os.environ, START_VARIABLE: marker}
        main = subprocess.Popen(
            [sys.executable, "-c", TREE], env=env, stdout=subprocess.PIPE, start_new_session=True, bufsize=0
        )
        assert main.stdout is not None
        child = int(main.stdout.readline())
        identity = identity_of(child)
        assert identity is not None
        started.append((main, identity))
        return main.pid, child

    yield spawned
    for main, child in started:
        process._kill_exactly(child)
        main.kill()
        main.wait(10)
        assert main.stdout is not None
        main.stdout.close()


@pytest.fixture
def leftovers(database: Database, settings: Settings) -> Leftovers:
    return Leftovers(database, settings, AT_ONCE)


def _start(database: Database, marker: str, **columns: object) -> int:
    """A backend with one start of that marker; its number."""
    with database.write() as s:
        backend = Backend(name="one", kind="managed")
        s.add(backend)
        s.flush()
        assert backend.id is not None
        start = BackendStart(backend_id=backend.id, number=4, weight_version=marker, **columns)
        s.add(start)
        return backend.id


def _look(leftovers: Leftovers) -> None:
    asyncio.run(leftovers.step())


def _rows(database: Database) -> list[Leftover]:
    with database.read() as s:
        return list(s.exec(select(Leftover)))


def _events(database: Database) -> list[tuple[str, str]]:
    with database.read() as s:
        return [(event.kind, event.message) for event in s.exec(select(BackendEvent).order_by(BackendEvent.id))]


def _clean(database: Database, row: Leftover) -> None:
    with database.write() as s:
        machine.clean_leftover(s, row.id or 0)


def _lives(pid: int) -> bool:
    return identity_of(pid) is not None


def test_a_tree_of_a_start_that_is_over_is_shown_and_not_touched(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn
) -> None:
    marker = new_marker(settings.data_dir, 1, 4)
    backend_id = _start(database, marker, ended_at=now())
    main, child = spawn(marker)
    for _ in range(3):
        _look(leftovers)
    (row,) = _rows(database)
    assert (row.marker, row.pid, row.processes, row.gpu_mib) == (marker, main, 2, None)
    assert row.memory_mib
    assert "and 1 more process" in row.name
    with database.read() as s:
        (view,) = machine.list_leftovers(s)
    assert view.state == "found"
    assert view.owner is not None
    assert (view.owner.backend_id, view.owner.start_number, view.owner.running) == (backend_id, 4, False)
    assert abs(view.started_at.timestamp() - psutil.Process(main).create_time()) < 1
    assert view.message == f"Left over from start 4 of one: {row.name}, pid {main}."
    assert [kind for kind, _ in _events(database)] == ["leftover_found"]
    assert _lives(main)
    assert _lives(child)


def test_cleaning_ends_the_whole_tree_and_says_so(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn
) -> None:
    marker, other = new_marker(settings.data_dir, 1, 4), new_marker(settings.data_dir, 1, 5)
    _start(database, marker, ended_at=now())
    main, child = spawn(marker)
    bystander, its_child = spawn(other)
    _look(leftovers)
    row = next(row for row in _rows(database) if row.marker == marker)
    _clean(database, row)
    with database.read() as s:
        assert {view.state for view in machine.list_leftovers(s)} == {"found", "cleaning"}
    asyncio.run(leftovers.clean())
    assert not _lives(main)
    assert not _lives(child)
    assert _lives(bystander)
    assert _lives(its_child)
    with database.read() as s:
        view = next(view for view in machine.list_leftovers(s) if view.id == row.id)
    assert view.state == "cleaned"
    assert view.message.startswith("Cleaned: ")
    assert f"(pid {main})" in view.message
    assert f"(pid {child})" in view.message
    assert [kind for kind, _ in _events(database)] == ["leftover_found", "leftover_clean_requested", "leftover_cleaned"]
    with database.write() as s, pytest.raises(Conflict, match="was cleaned already"):
        machine.clean_leftover(s, row.id or 0)
    with database.write() as s, pytest.raises(NotFound):
        machine.clean_leftover(s, 4711)


def test_what_is_left_after_the_main_process_died_is_one_too(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn
) -> None:
    main, child = spawn(new_marker(settings.data_dir, 1, 4))
    os.kill(main, 9)
    while _lives(main):
        pass
    _look(leftovers)
    (row,) = _rows(database)
    assert (row.pid, row.processes) == (child, 1)
    assert "an unknown start" in row.message
    _clean(database, row)
    _look(leftovers)
    assert not _lives(child)


def test_a_start_that_runs_is_none_nor_is_one_that_was_just_spawned(
    database: Database, settings: Settings, spawn: Spawn
) -> None:
    running, young = new_marker(settings.data_dir, 1, 4), new_marker(settings.data_dir, 1, 5)
    _start(database, running)
    spawn(running)
    spawn(young)
    _look(Leftovers(database, settings))
    assert _rows(database) == []
    _look(Leftovers(database, settings, AT_ONCE))
    assert [row.marker for row in _rows(database)] == [young]


def test_a_start_that_has_just_ended_gets_a_moment_to_be_gone(
    database: Database, settings: Settings, spawn: Spawn
) -> None:
    marker = new_marker(settings.data_dir, 1, 4)
    _start(database, marker, ended_at=now())
    spawn(marker)
    _look(Leftovers(database, settings))
    assert _rows(database) == []
    with database.write() as s:
        s.exec(select(BackendStart)).one().ended_at = now() - timedelta(minutes=1)
    _look(Leftovers(database, settings))
    assert len(_rows(database)) == 1


def test_a_marker_of_an_earlier_version_counts_where_the_database_knows_it(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn
) -> None:
    known, strange = "draftmill-1-4-0123456789abcdef", "draftmill-1-4-fedcba9876543210"
    _start(database, known, ended_at=now())
    spawn(known)
    spawn(strange)
    _look(leftovers)
    assert [row.marker for row in _rows(database)] == [known]


def test_what_belongs_to_another_data_directory_is_not_ours(
    database: Database,
    settings: Settings,
    leftovers: Leftovers,
    spawn: Spawn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawn(new_marker(tmp_path, 1, 4))
    spawn(new_marker(settings.data_dir, 1, 4))
    monkeypatch.setattr(host, "shares_folder", lambda *_: False)  # as to a process in a container of its own
    _look(leftovers)
    assert _rows(database) == []


def test_one_that_ended_by_itself_is_no_longer_shown(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn
) -> None:
    main, child = spawn(new_marker(settings.data_dir, 1, 4))
    _look(leftovers)
    (row,) = _rows(database)
    os.kill(main, 9)
    os.kill(child, 9)
    while _lives(main) or _lives(child):
        pass
    _look(leftovers)
    assert _rows(database) == []
    assert row.pid == main


def test_a_number_that_is_another_process_by_now_is_not_signalled(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn
) -> None:
    stranger, its_child = spawn("of-somebody-else")
    with database.write() as s:
        row = Leftover(marker=new_marker(settings.data_dir, 1, 4), pid=stranger, pid_started=1.0, name="gone")
        row.clean_requested = True
        s.add(row)
    asyncio.run(leftovers.clean())
    (after,) = _rows(database)
    assert after.message == "Nothing was left to clean: gone had ended by itself."
    assert after.cleaned_at is not None
    assert _lives(stranger)
    assert _lives(its_child)


def test_a_tree_that_a_running_start_owns_by_now_is_not_cleaned(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn
) -> None:
    marker = new_marker(settings.data_dir, 1, 4)
    main, child = spawn(marker)
    _look(leftovers)
    _start(database, marker)
    (row,) = _rows(database)
    _clean(database, row)
    asyncio.run(leftovers.clean())
    assert _lives(main)
    assert _lives(child)
    (after,) = _rows(database)
    assert (after.clean_requested, after.message) == (False, "Not cleaned: a start that runs owns it now.")


def test_what_does_not_die_is_named_and_stays_listed(
    database: Database, settings: Settings, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = new_marker(settings.data_dir, 1, 4)
    main, _ = spawn(marker)
    leftovers = Leftovers(database, settings, Patience(grace_s=0.0, kill_s=0.1))
    _look(leftovers)
    (row,) = _rows(database)
    _clean(database, row)
    # a process that waits in the kernel cannot be made at will: here the signals are lost
    monkeypatch.setattr(process.ServerProcess, "kill_tree", process.ServerProcess.members)
    _look(leftovers)
    (after,) = _rows(database)
    assert after.cleaned_at is None
    assert not after.clean_requested
    assert after.message.startswith("Not all of it could be ended: ")
    assert f"(pid {main})" in after.message
    _look(leftovers)
    assert _rows(database)[0].message == after.message


def test_a_cleaned_one_fades_from_the_list(database: Database, settings: Settings, leftovers: Leftovers) -> None:
    with database.write() as s:
        s.add(Leftover(marker="draftmill-1-4-0123456789abcdef", pid=1, pid_started=1.0, name="x", cleaned_at=now()))
    _look(leftovers)
    assert len(_rows(database)) == 1
    _look(Leftovers(database, settings, Patience(shown_s=0.0)))
    assert _rows(database) == []


def test_gpu_memory_is_told_where_the_driver_tells_it(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = new_marker(settings.data_dir, 1, 4)
    backend_id = _start(database, marker, ended_at=now())
    main, child = spawn(marker)
    fake = FakeNvml(Device("GPU-a", used=900, compute=[(main, 500), (child, 300), (2**22 + 1, 100)]))
    monkeypatch.setattr(gpus, "nvml", lambda: fake)
    monkeypatch.setattr(gpus, "_SURVEYOR", gpus.Surveyor())
    _look(leftovers)
    assert _rows(database)[0].gpu_mib == 800
    with database.read() as s:
        view = machine.list_gpus(s)
    owners = {holder.pid: holder.owner for holder in view.items[0].processes}
    assert owners[2**22 + 1] is None
    for pid in (main, child):
        owner = owners[pid]
        assert owner is not None
        assert (owner.backend_id, owner.name, owner.start_number, owner.running) == (backend_id, "one", 4, False)


def test_a_look_that_finds_nothing_new_writes_nothing(
    database: Database, settings: Settings, leftovers: Leftovers, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn(new_marker(settings.data_dir, 1, 4))
    _look(leftovers)
    monkeypatch.setattr(Database, "write", lambda *_: pytest.fail("wrote"))
    _look(leftovers)
