"""A server whose machine is not this one, or not in this boot: what can be known of it, and what is done about it."""

from datetime import timedelta

import pytest

from db.errors import Conflict
from db.tables import BackendStart
from db.types import now
from inference.backends.host.identity import machine
from inference.backends.service import get_backend
from tests.backends.conftest import Lab


def move_away(lab: Lab, backend_id: int, *, host: str, boot_id: str) -> None:
    """As if the start had been written down by another machine, or in another boot."""
    with lab.db.write() as s:
        start = s.get_one(BackendStart, get_backend(s, backend_id).start_id)
        start.host, start.boot_id = host, boot_id


@pytest.fixture
def running(lab: Lab) -> int:
    """A server that runs, with nobody who watches it."""
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
    return one


def test_a_start_knows_its_machine_and_its_boot(lab: Lab, running: int) -> None:
    start = lab.start_row(running)
    assert (start.host, start.boot_id) == (machine().host, machine().boot_id)


def test_a_server_of_another_machine_is_unknown_neither_started_again_nor_touched_until_a_person_forgets_it(
    lab: Lab, running: int
) -> None:
    start = lab.start_row(running)
    move_away(lab, running, host="elsewhere", boot_id="another-boot")
    with lab.supervising():
        row = lab.wait(running, "unknown")
        assert "elsewhere" in row.message
        for action in ("start", "stop", "restart", "kill"):
            with pytest.raises(Conflict) as refused:
                lab.ask(running, action)
            assert refused.value.allowed == ("forget",)
    with lab.supervising():
        assert lab.wait(running, "unknown").start_id == start.id
        assert len(lab.tree(running)) == 1
        lab.ask(running, "forget")
        row = lab.wait(running, "stopped")
        assert row.desired_state == "stopped"
        assert "a person said" in row.message
        assert lab.start_row(running).ended_at is not None
        assert len(lab.tree(running)) == 1, "nothing that cannot be proven ours is ever signalled"


def test_a_server_that_comes_into_sight_again_is_taken_back(lab: Lab, running: int) -> None:
    start = lab.start_row(running)
    move_away(lab, running, host="elsewhere", boot_id="another-boot")
    with lab.supervising():
        lab.wait(running, "unknown")
    move_away(lab, running, host=machine().host, boot_id=machine().boot_id)
    with lab.supervising():
        row = lab.wait(running, "ready")
        assert row.start_id == start.id
        lab.ask(running, "stop")
        lab.wait(running, "stopped")
    assert lab.tree(running) == []


def test_after_a_restart_of_the_machine_its_servers_are_known_to_be_gone_and_started_again(
    lab: Lab, running: int
) -> None:
    start = lab.start_row(running)
    assert start.pid is not None
    old = lab.tree(running)
    move_away(lab, running, host=machine().host, boot_id="the boot before")
    for process in old:
        process.kill()
    with lab.supervising():
        row = lab.wait(running, lambda row: row.start_id != start.id and row.observed_state == "ready")
        assert row.crashes == 1
        ended = lab.start(start.id)
        assert ended.error is not None
        assert ended.error["code"] == "machine_restarted"
        assert "The machine or its container was restarted" in (ended.ending or "")
        lab.ask(running, "stop")
        lab.wait(running, "stopped")


def test_a_start_up_keeps_its_age_under_the_next_supervisor(lab: Lab) -> None:
    lab.behave(hang_at="loading")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, lambda row: row.phase and row.phase["total"] == 2)
    long_ago = now() - timedelta(minutes=7)
    with lab.db.write() as s:
        start = s.get_one(BackendStart, get_backend(s, one).start_id)
        start.phases = [{**item, "at": long_ago.isoformat()} for item in start.phases]
    with lab.supervising():
        row = lab.wait(one, lambda row: "for 7 min" in row.message)
        assert row.observed_state == "loading"
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
