"""Of two workers of which one does not know yet that it has lost the database, only one starts a backend."""

import os
from pathlib import Path

import pytest
from sqlmodel import select

from db.engine import Database
from db.tables import Backend, BackendPort, BackendStart
from inference.backends.host.identity import Identity, machine
from inference.backends.launch.ports import PortBlock
from inference.backends.supervision import launching
from inference.backends.supervision.records import NewStart, Records
from tests.backends.conftest import Lab


def new_start(number: int, http: int) -> NewStart:
    here = machine()
    return NewStart(
        number=number,
        command=("python",),
        environment={},
        log=Path("/nowhere/start.log"),
        ports=PortBlock(http, http + 1),
        weight_version=f"draftmill-00000000-1-{number}-{http:016x}",
        url=f"http://127.0.0.1:{http}",
        api_key="k" * 48,
        host=here.host,
        boot_id=here.boot_id or None,
        gpu_before=None,
    )


def test_a_start_is_written_down_only_after_the_start_it_was_decided_on(database: Database) -> None:
    with database.write() as s:
        backend = Backend(name="one", kind="managed", desired_state="running")
        s.add(backend)
        s.flush()
        number = backend.id or 0
    successor, late = Records(database), Records(database)
    first = successor.begin_start(number, new_start(1, 30_100), after=None, crashes=0, message="")
    assert first is not None
    assert late.begin_start(number, new_start(1, 30_200), after=None, crashes=0, message="") is None
    with database.read() as s:
        assert [start.id for start in s.exec(select(BackendStart))] == [first]
        assert {row.port for row in s.exec(select(BackendPort))} == {30_100, 30_101}
        assert s.get_one(Backend, number).url == "http://127.0.0.1:30100"
    assert late.begin_start(number, new_start(2, 30_300), after=first, crashes=0, message="") is not None


def test_what_another_worker_started_meanwhile_is_taken_over_and_no_second_process_is_started(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lab.create()
    real, spawned = launching.reserve, []
    monkeypatch.setattr(launching.ServerProcess, "spawn", _counted(launching.ServerProcess.spawn, spawned))

    def overtaken(spec, ports) -> PortBlock:  # while we pick ports, another writes its own start down
        if lab.row(one).start_id is None:
            other = Records(lab.db)
            start_id = other.begin_start(one, new_start(1, 30_100), after=None, crashes=0, message="Another's.")
            other.spawned(start_id, Identity(os.getpid(), 1.0))  # which has ended since
        return real(spec, ports)

    monkeypatch.setattr(launching, "reserve", overtaken)
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        with lab.db.read() as s:
            starts = list(s.exec(select(BackendStart).order_by(BackendStart.number)))
        assert [(start.number, start.ended_at is None) for start in starts] == [(1, False), (2, True)]
        assert spawned == [starts[1].weight_version]
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def _counted(spawn, spawned: list[str]):
    def counting(*arguments, marker: str, **named):
        spawned.append(marker)
        return spawn(*arguments, marker=marker, **named)

    return counting
