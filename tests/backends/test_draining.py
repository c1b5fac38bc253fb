"""How a server is stopped: its requests finish until a deadline that people see, then SIGTERM, then SIGKILL, then proof."""

import asyncio
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from db.errors import Conflict
from db.tables import Backend
from db.types import now
from inference.backends.server.client import GenerateError, Generation, SglangClient, new_rid
from tests.backends.conftest import HURRIED, Lab

PATIENT = replace(HURRIED, kill_after_s=60.0)


async def _generate(row: Backend) -> Generation:
    async with SglangClient(row.url or "", row.api_key) as client:
        return await client.generate([5], {"max_new_tokens": 8}, new_rid(), timeout_s=60)


async def _in_flight(row: Backend) -> int:
    async with SglangClient(row.url or "", row.api_key) as client:
        loads = await client.call("GET", "/v1/loads")
        return int(loads["loads"][0]["num_running_reqs"])


@contextmanager
def one_request(lab: Lab, backend_id: int, row: Backend):
    """A request that the server holds on to."""
    with ThreadPoolExecutor(1) as pool:
        answer: Future[Generation] = pool.submit(asyncio.run, _generate(row))
        lab.wait(backend_id, lambda _: asyncio.run(_in_flight(row)) == 1)
        yield answer


@pytest.fixture
def hold(lab: Lab, tmp_path: Path) -> Path:
    """While this file exists, no request for more than one token is answered."""
    hold = tmp_path / "hold"
    hold.touch()
    lab.behave(hold=str(hold))
    return hold


def states(lab: Lab) -> list[str]:
    seen = [state for state, _ in lab.seen]
    return [state for i, state in enumerate(seen) if i == 0 or state != seen[i - 1]]


def test_a_drain_shows_its_deadline_and_how_many_requests_it_waits_for_and_sends_no_signal(
    lab: Lab, hold: Path
) -> None:
    one = lab.create(drain_limit_s=300)
    with lab.supervising(PATIENT):
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        pid = lab.start_row(one).pid
        with one_request(lab, one, row) as answer:
            lab.ask(one, "stop")
            row = lab.wait(one, lambda row: "1 request in flight" in row.message)
            assert row.observed_state == "draining"
            assert row.deadline_at is not None
            assert 200 < (row.deadline_at - now()).total_seconds() <= 300
            assert lab.start_row(one).stopping_at is not None
            assert "SIGTERM" not in (lab.settings.data_dir / "logs" / f"backend-{one}" / "start-1.log").read_text()
            assert any(process.pid == pid for process in lab.tree(one))
            hold.unlink()
            assert answer.result(60).output_ids is not None
        row = lab.wait(one, "stopped")
    assert "exit code 0" in row.message
    assert row.deadline_at is None
    assert states(lab)[-3:] == ["draining", "stopping", "stopped"]


def test_a_person_who_will_not_wait_has_it_killed(lab: Lab, hold: Path) -> None:
    one = lab.create(drain_limit_s=300)
    with lab.supervising(PATIENT):
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        with one_request(lab, one, row) as answer:
            lab.ask(one, "stop")
            lab.wait(one, "draining")
            lab.ask(one, "kill")
            with pytest.raises(Conflict):
                lab.ask(one, "kill")
            row = lab.wait(one, "stopped")
            with pytest.raises(GenerateError):
                answer.result(60)
        assert "killed, as was asked" in row.message
        assert not row.kill_requested
        assert lab.tree(one) == []
        hold.unlink()
        lab.ask(one, "start")
        lab.wait(one, "ready")
        lab.ask(one, "kill")
        assert "killed, as was asked" in lab.wait(one, "stopped").message


def test_a_restart_drains_as_a_stop_does_and_a_kill_hurries_it_without_undoing_it(lab: Lab, hold: Path) -> None:
    one = lab.create(drain_limit_s=300)
    with lab.supervising(PATIENT):
        lab.ask(one, "start")
        before = lab.wait(one, "ready")
        with one_request(lab, one, before) as answer:
            lab.ask(one, "restart")
            lab.wait(one, "draining")
            lab.ask(one, "kill")
            with pytest.raises(GenerateError):
                answer.result(60)
        after = lab.wait(one, lambda row: row.observed_state == "ready" and row.start_id != before.start_id)
        assert not after.kill_requested
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_server_that_does_not_answer_is_not_drained(lab: Lab, tmp_path: Path) -> None:
    stuck = tmp_path / "stuck"
    lab.behave(stuck=str(stuck))
    one = lab.create(drain_limit_s=300)
    with lab.supervising(replace(PATIENT, canary_timeout_s=0.3)):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        stuck.touch()
        lab.wait(one, "unresponsive")
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
    assert "draining" not in states(lab)
    assert any("does not answer" in message for _, message in lab.seen)


def test_a_server_that_does_not_tell_what_is_in_flight_drains_by_itself_within_the_same_time(
    lab: Lab, tmp_path: Path
) -> None:
    lab.behave(absent=["/v1/loads"])
    one = lab.create(drain_limit_s=300)
    with lab.supervising(replace(HURRIED, kill_after_s=1.0)):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert "exit code 0" in row.message
    told = [message for state, message in lab.seen if state == "stopping"]
    assert not told or "does not tell" in told[0]


def test_a_drain_goes_on_under_the_next_supervisor_until_the_same_deadline(lab: Lab, hold: Path) -> None:
    one = lab.create(drain_limit_s=300)
    with lab.supervising(PATIENT):
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
    with one_request(lab, one, row) as answer:
        with lab.supervising(PATIENT):
            lab.ask(one, "stop")
            deadline = lab.wait(one, lambda row: row.observed_state == "draining" and row.deadline_at).deadline_at
        with lab.supervising(PATIENT):
            row = lab.wait(one, lambda row: "1 request in flight" in row.message)
            assert row.deadline_at == deadline
            assert row.observed_state == "draining"
            hold.unlink()
            answer.result(60)
            row = lab.wait(one, "stopped")
    assert "begun before Draftmill was restarted" in row.message
    assert lab.tree(one) == []


def test_a_server_that_dies_while_it_drains_is_stopped_as_was_asked(lab: Lab, hold: Path) -> None:
    one = lab.create(drain_limit_s=300)
    with lab.supervising(PATIENT):
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        pid = lab.start_row(one).pid
        assert pid is not None
        with one_request(lab, one, row) as answer:
            lab.ask(one, "stop")
            lab.wait(one, "draining")
            os.kill(pid, 9)
            row = lab.wait(one, "stopped")
            with pytest.raises(GenerateError):
                answer.result(60)
    assert row.crashes == 0
    assert lab.tree(one) == []
