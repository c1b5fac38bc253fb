"""Ports belong to a start from before its process exists until that is proven gone."""

import pytest
from sqlmodel import select

from db.tables import BackendPort
from inference.backends.launch.ports import PortBlock
from inference.backends.supervision import launching
from tests.backends.conftest import Lab


def reserved(lab: Lab) -> dict[int, str]:
    with lab.db.read() as s:
        return {row.port: row.purpose for row in s.exec(select(BackendPort))}


def test_a_start_has_its_ports_in_the_database_until_its_end_is_proven(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, lambda row: row.start_id)
        start = lab.start_row(one)
        assert reserved(lab) == {start.port: "http", start.nccl_port: "nccl"}
        lab.wait(one, "ready")
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
        assert reserved(lab) == {}


def test_a_port_that_another_start_was_given_meanwhile_is_picked_anew(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = lab.create("one"), lab.create("two")
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        taken = lab.start_row(one)
        real, offered = launching.reserve, []

        def stale(spec, ports) -> PortBlock:  # as if we had looked before the other's start was written down
            offered.append(ports)
            return PortBlock(taken.port, taken.nccl_port) if len(offered) == 1 else real(spec, ports)

        monkeypatch.setattr(launching, "reserve", stale)
        lab.ask(two, "start")
        lab.wait(two, "ready")
        assert len(offered) == 2
        assert taken.port in offered[0]
        assert lab.start_row(two).port != taken.port
        for backend_id in (one, two):
            lab.ask(backend_id, "stop")
        for backend_id in (one, two):
            lab.wait(backend_id, "stopped")


def test_the_ports_of_attached_servers_on_this_machine_are_left_to_them(lab: Lab) -> None:
    from inference.backends.supervision.records import Records

    lab.attach("http://127.0.0.1:30555")
    lab.attach("http://localhost:30557/v1", name="named")
    lab.attach("http://10.9.8.7:30559", name="elsewhere")
    assert Records(lab.db).ports_in_use() == {30555, 30557}
