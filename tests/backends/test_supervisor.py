"""The supervisor over real processes: the life of a server, and every way in which it may go wrong."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from db.errors import Conflict
from db.tables import Backend, BackendStart
from inference.backends.host.identity import Identity, identity_of
from inference.backends.host.process import ServerProcess
from inference.backends.logs.reading import read_tail
from inference.backends.server.client import GenerateError, Generation, SglangClient, new_rid
from inference.backends.supervision.tending import Tending
from tests.backends.conftest import HURRIED, Lab, passing_probe


def test_start_reaches_ready_through_its_phases_and_stop_proves_the_tree_gone(lab: Lab) -> None:
    lab.behave(load_s=0.6, warm_s=0.4, child="follows")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        start = lab.start_row(one)
        assert [state for state, _ in lab.seen]
        assert {"starting", "loading", "warming_up", "ready"} >= {s for s, _ in lab.seen} - {"stopped"}
        assert "loading" in {state for state, _ in lab.seen}
        assert row.url == f"http://127.0.0.1:{start.port}"
        assert row.version == "0.5.23"
        assert row.phase is not None
        assert row.phase["name"] in {"warm-up", "fired up"}
        assert {item["source"] for item in row.evidence if item["ok"]} >= {"process", "health", "generation"}
        assert "api_key" not in str(row.server_info)
        assert len(lab.tree(one)) == 2
        row = lab.wait(one, lambda row: row.probe)
        assert row.probe == {"ok": True, "refusals": [], "notes": [], "checks": []}
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert lab.tree(one) == []
    assert "SIGTERM" in row.message
    assert "exit code 0" in row.message
    assert f"port {start.port} is free" in row.message
    assert "No process of its tree is left" in row.message
    ended = lab.start_row(one)
    assert (ended.exit_code, ended.ended_at is not None) == (0, True)
    assert not list(lab.settings.data_dir.glob("logs/**/*.yaml"))


def test_readiness_is_never_taken_from_the_log_alone(lab: Lab) -> None:
    lab.behave(stranger=True)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: "another one" in row.message)
        assert row.observed_state == "warming_up"
        assert "fired up" in lab.row(one).evidence[1]["text"]
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
    assert lab.tree(one) == []


def test_a_server_that_ignores_sigterm_is_killed_at_the_deadline_with_its_whole_tree(lab: Lab) -> None:
    lab.behave(ignore_term=True, child="stays")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        assert len(lab.tree(one)) == 2
        lab.ask(one, "stop")
        lab.wait(one, "draining")
        row = lab.wait(one, "stopped")
    assert "SIGKILL" in row.message
    assert lab.tree(one) == []


def test_requests_in_flight_are_aborted_at_the_deadline_so_that_the_server_ends_in_order(lab: Lab) -> None:
    lab.use_whole_fake({"rules": [{"when": {"contains": 5}, "answer": {"hang": True}}]})
    one = lab.create(drain_limit_s=1.0)
    patient = replace(HURRIED, kill_after_s=30.0)
    with lab.supervising(patient):
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(asyncio.run, _generate(row, [5]))
            lab.wait(one, lambda _: _running(row) == 1)
            lab.ask(one, "stop")
            row = lab.wait(one, "stopped")
            with pytest.raises(GenerateError) as aborted:
                answer.result(30)
    assert aborted.value.kind == "aborted"
    assert "draining" in {state for state, _ in lab.seen}
    assert "exit code 0" in row.message
    assert lab.tree(one) == []


async def _generate(row: Backend, ids: list[int]) -> Generation:
    async with SglangClient(row.url or "", row.api_key) as client:
        return await client.generate(ids, {"max_new_tokens": 8}, new_rid(), timeout_s=60)


def _running(row: Backend) -> int:
    async def ask() -> int:
        async with SglangClient(row.url or "", row.api_key) as client:
            loads = await client.call("GET", "/v1/loads")
            return int(loads["loads"][0]["num_running_reqs"])

    return asyncio.run(ask())


def test_stop_while_loading_leaves_no_orphan(lab: Lab) -> None:
    lab.behave(hang_loading=True, child="stays")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "loading")
        assert lab.wait(one, lambda row: row.phase and row.phase["total"] == 2).phase["done"] == 0
        assert row.phase["name"] == "loading weights"
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert "killed while it was starting" in row.message
    assert lab.tree(one) == []


def test_orphans_of_a_parent_that_was_killed_alone_are_cleared_away(lab: Lab) -> None:
    lab.behave(child="stays")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        first = lab.start_row(one)
        orphans = [process for process in lab.tree(one) if process.pid != first.pid]
        assert len(orphans) == 1
        os.kill(first.pid, signal.SIGKILL)
        lab.wait(one, lambda row: row.start_id != first.id and row.observed_state == "ready")
        assert not orphans[0].is_running() or orphans[0].status() == psutil.STATUS_ZOMBIE
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_server_killed_from_outside_is_diagnosed_and_restarted(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        first = lab.start_row(one)
        os.kill(first.pid, signal.SIGKILL)
        row = lab.wait(one, lambda row: row.crashes == 1)
        assert row.error is not None
        assert row.error["code"] == "killed"
        row = lab.wait(one, lambda row: row.observed_state == "ready" and row.start_id != first.id)
        assert row.error is None
        with lab.db.read() as s:
            ended = s.get(BackendStart, first.id)
        assert ended is not None
        assert ended.exit_code == -9
        assert "killed from outside" in (ended.ending or "")
        assert identity_of(first.pid) is None
        assert not psutil.pid_exists(first.pid), "a zombie was left"
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_crashes_are_bounded(lab: Lab) -> None:
    lab.behave(say=["Scheduler hit an exception: Traceback (most recent call last):"], exit=-9 % 256)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
    assert row.crashes == 3
    assert "3 crashes in a row" in row.message
    assert lab.start_row(one).number == 3


def test_crashes_are_forgotten_with_a_stop_so_that_the_next_start_has_all_its_tries(lab: Lab) -> None:
    lab.behave(say=["Scheduler hit an exception: Traceback (most recent call last):"], exit=-9 % 256)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        assert lab.wait(one, "failed").crashes == 3
        lab.ask(one, "stop")
        assert lab.wait(one, "stopped").crashes == 0
        lab.ask(one, "start")
        assert lab.wait(one, "failed").crashes == 3
    assert lab.start_row(one).number == 6


def test_crashes_are_forgotten_once_it_was_ready_for_a_while(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising(replace(HURRIED, steady_s=0.3)):
        lab.ask(one, "start")
        for _ in range(len(HURRIED.backoff_s) + 2):  # more often than it would be started again in a row
            lab.wait(one, lambda row: row.observed_state == "ready" and row.crashes == 0)
            killed = lab.start_row(one)
            os.kill(killed.pid, signal.SIGKILL)
            lab.wait(one, lambda row, killed=killed: row.start_id != killed.id)
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_crashes_count_on_where_it_was_ready_only_for_a_moment(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        for number in range(1, len(HURRIED.backoff_s) + 2):
            lab.wait(one, "ready")
            os.kill(lab.start_row(one).pid, signal.SIGKILL)
            lab.wait(one, lambda row, number=number: row.crashes == number)
        assert "3 crashes in a row" in lab.wait(one, "failed").message


@pytest.mark.parametrize(
    ("behaviour", "code", "told"),
    [
        (
            {
                "say": ["usage: sglang serve …", "sglang serve: error: unrecognized arguments: --no-such-flag"],
                "exit": 2,
            },
            "unknown_flag",
            "--no-such-flag",
        ),
        ({"exit": 2}, "bad_arguments", "exit code 2"),
        ({"say": ["ValueError: something about the config"], "exit": 1}, "startup_error", "something about the config"),
    ],
)
def test_what_would_fail_again_is_not_tried_again(lab: Lab, behaviour: dict, code: str, told: str) -> None:
    lab.behave(**behaviour)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
        assert row.error is not None
        assert row.error["code"] == code
        assert told in row.message
        assert lab.start_row(one).number == 1
        lab.behave()
        lab.ask(one, "start")
        assert lab.wait(one, "ready").error is None
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_lost_port_ends_the_hanging_process_and_the_next_start_takes_another(lab: Lab) -> None:
    lab.behave(steal_port=True)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: row.crashes == 1)
        assert row.error is not None
        assert row.error["code"] == "port_in_use"
        lab.behave()
        lab.wait(one, "ready")
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_start_up_over_the_users_limit_fails_and_names_the_last_stage(lab: Lab) -> None:
    lab.behave(hang_loading=True)
    one = lab.create(startup_limit_s=0.5)
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
    assert "startup_limit_s" in row.message
    assert "the last stage was: " in row.message
    assert lab.tree(one) == []


def test_a_server_that_fails_its_health_check_but_generates_stays_ready_and_says_so(lab: Lab, tmp_path: Path) -> None:
    sick = tmp_path / "sick"
    lab.behave(unhealthy=str(sick))
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        pid = lab.start_row(one).pid
        sick.touch()
        row = lab.wait(one, lambda row: "not every check is good" in row.message)
        assert row.observed_state == "ready"
        assert "answered 503" in row.message
        sick.unlink()
        lab.wait(one, lambda row: "not every check" not in row.message)
        assert lab.start_row(one).pid == pid
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_new_supervisor_takes_back_the_running_server(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
    start = lab.start_row(one)
    assert psutil.pid_exists(start.pid)
    with lab.supervising():
        lab.wait(one, lambda row: any("Taken back" in item["text"] or "alive" in item["text"] for item in row.evidence))
        time.sleep(0.5)
        assert lab.row(one).observed_state == "ready"
        assert lab.start_row(one).pid == start.pid
        assert "fired up" in read_tail(lab.settings, lab.start_row(one))
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
    assert lab.tree(one) == []


@pytest.mark.slow
def test_a_server_that_is_not_our_child_is_taken_back_and_its_exit_code_is_said_to_be_unknown(lab: Lab) -> None:
    """As after a SIGKILL of the worker: another process started it, and is gone."""
    one = lab.create()
    script = f"""
import sys
sys.path.insert(0, {str(Path.cwd())!r})
import asyncio, os
from pathlib import Path
from db.engine import Database
from db.stores import open_id_store
from inference.backends.supervision.supervisor import Supervisor
from inference.context import Context
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.backends.conftest import HURRIED, passing_probe
settings = Settings(_env_file=None, data_dir={str(lab.settings.data_dir)!r}, model_roots={[str(root) for root in lab.settings.model_roots]!r}, sglang_python={str(lab.settings.sglang_python)!r})
db = Database({str(lab.db.url.render_as_string(hide_password=False))!r})
ctx = Context(settings, db, open_id_store(db, settings.data_dir), TokenizerCache(settings.model_roots, False))
asyncio.run(Supervisor(ctx, HURRIED, passing_probe).run(asyncio.Event()))
"""
    lab.ask(one, "start")
    worker = subprocess.Popen([sys.executable, "-c", script])
    lab.wait(one, "ready")
    worker.kill()
    worker.wait()
    start = lab.start_row(one)
    assert psutil.pid_exists(start.pid)
    with lab.supervising():
        lab.wait(one, lambda row: row.evidence and row.observed_at)
        lab.ask(one, "restart")
        lab.wait(one, lambda row: row.observed_state == "ready" and row.start_id != start.id)
        with lab.db.read() as s:
            ended = s.get(BackendStart, start.id)
        assert ended is not None
        assert ended.exit_code is None
        assert "exit code unknown (not our child)" in (ended.ending or "")
        lab.ask(one, "stop")
        lab.wait(one, "stopped")
    assert lab.tree(one) == []


def test_a_server_that_died_while_nobody_watched_is_restarted_with_the_reason(lab: Lab) -> None:
    lab.behave(child="stays")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
    start = lab.start_row(one)
    os.kill(start.pid, signal.SIGKILL)
    os.waitpid(start.pid, 0)
    with lab.supervising():
        lab.wait(one, lambda row: row.observed_state == "ready" and row.start_id != start.id)
        with lab.db.read() as s:
            ended = s.get(BackendStart, start.id)
        assert ended is not None
        assert "While Draftmill was away" in (ended.ending or "")
        leftovers = [
            p for p in psutil.process_iter() if p.pid != os.getpid() and _marker(p.pid) == start.weight_version
        ]
        assert leftovers == []
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def _marker(pid: int) -> str | None:
    from inference.backends.host.identity import marker_of

    return marker_of(pid) if identity_of(pid) else None


def test_a_stranger_with_the_recorded_pid_is_never_signalled(lab: Lab) -> None:
    one = lab.create()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
    try:
        found = identity_of(stranger.pid)
        assert found is not None
        with lab.db.write() as s:
            for pid_started in (found.started - 1000.0,):
                start = BackendStart(
                    backend_id=one,
                    number=1,
                    pid=stranger.pid,
                    pid_started=pid_started,
                    weight_version="draftmill-1-1-gone",
                    port=30_099,
                    log_path=str(lab.settings.data_dir / "logs" / "none.log"),
                )
                s.add(start)
            s.flush()
            row = s.get_one(type(lab.row(one)), one)
            row.start_id, row.observed_state, row.desired_state = start.id, "ready", "stopped"
        with lab.supervising():
            lab.wait(one, "stopped")
        assert stranger.poll() is None
        handle = ServerProcess.gone(Identity(stranger.pid, found.started - 1000.0), "draftmill-1-1-gone")
        assert handle.kill_tree() == []
        assert not handle.terminate()
        assert stranger.poll() is None
        assert ServerProcess.adopt(Identity(stranger.pid, found.started - 1000.0), "draftmill-1-1-gone") is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_second_start_of_a_running_backend_is_refused_with_the_moves_allowed(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        with pytest.raises(Conflict) as refused:
            lab.ask(one, "start")
        assert refused.value.allowed[0] == "stop"
        lab.wait(one, "ready")
        with pytest.raises(Conflict) as refused:
            lab.ask(one, "start")
        assert refused.value.code == "illegal_move"
        assert set(refused.value.allowed) == {"stop", "restart", "kill", "probe"}
        assert len(lab.tree(one)) == 1
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_flood_in_the_log_does_not_block_the_server(lab: Lab) -> None:
    lab.behave(flood=100_000)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_running_servers_log_is_capped_and_the_logs_of_its_last_starts_are_kept(lab: Lab) -> None:
    lab.use(lab.settings.model_copy(update={"log_max_mb": 2, "log_keep": 1}), lab.model)
    lab.behave(flood=30_000)  # 3 MB
    one = lab.create()
    with lab.supervising():
        for number in (1, 2):
            lab.ask(one, "start")
            lab.wait(one, "ready")
            log = Path(lab.start_row(one).log_path or "")
            assert log.stat().st_size > 3_000_000
            lab.wait(one, lambda _, log=log: log.stat().st_blocks * 512 <= 2 * 1024 * 1024)
            assert [path.name for path in log.parent.glob("*.log")] == [f"start-{number}.log"]
            lab.ask(one, "stop")
            lab.wait(one, "stopped")


def test_restart_is_a_stop_and_a_start_with_a_new_key(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        before = lab.wait(one, "ready")
        lab.ask(one, "restart")
        after = lab.wait(one, lambda row: row.observed_state == "ready" and row.start_id != before.start_id)
        assert after.api_key != before.api_key
        assert not after.restart_requested
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_two_backends_started_together_share_no_port(lab: Lab) -> None:
    ids = [lab.create("one"), lab.create("two")]
    with lab.supervising():
        for backend_id in ids:
            lab.ask(backend_id, "start")
        urls = {lab.wait(backend_id, "ready").url for backend_id in ids}
        assert len(urls) == 2
        for backend_id in ids:
            lab.ask(backend_id, "stop")
        for backend_id in ids:
            lab.wait(backend_id, "stopped")


def test_the_key_is_in_no_argument_no_view_and_no_shown_log(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        start = lab.start_row(one)
        key = row.api_key
        assert key
        assert len(key) >= 32
        assert key not in " ".join(psutil.Process(start.pid).cmdline())
        raw = (lab.settings.data_dir / "logs" / f"backend-{one}" / "start-1.log").read_text()
        assert key in raw, "the fixture prints the key, as SGLang does"
        assert key not in read_tail(lab.settings, start)
        assert oct(Path(start.log_path).stat().st_mode & 0o777) == "0o600"
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_model_that_is_gone_by_the_time_of_the_start_is_refused_before_any_process(lab: Lab) -> None:
    one = lab.create()
    (lab.model / "config.json").unlink()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
    assert "launch.model_path" in row.message
    assert row.start_id is None


def test_a_missing_sglang_is_said_with_its_cure(lab: Lab) -> None:
    one = lab.create()
    assert lab.settings.sglang_python is not None
    lab.settings.sglang_python.write_text("#!/bin/sh\necho 'sglang is not installed'\nexit 1\n")
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
    assert "make engine" in row.message
    assert "DRAFTMILL_SGLANG_PYTHON" in row.message


def test_an_attached_server_is_checked_by_a_real_request_and_let_go_untouched(lab: Lab, fake_sglang) -> None:
    far = lab.attach(fake_sglang.url)
    with lab.supervising():
        lab.ask(far, "start")
        row = lab.wait(far, "ready")
        assert row.server_info
        assert row.model
        lab.ask(far, "stop")
        row = lab.wait(far, "stopped")
    assert "was not touched" in row.message


def test_an_attached_server_that_is_not_there_is_unresponsive_with_the_url_asked(lab: Lab) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        far = lab.attach(f"http://127.0.0.1:{port}")
        with lab.supervising():
            lab.ask(far, "start")
            row = lab.wait(far, "unresponsive")
            assert f"127.0.0.1:{port}" in row.message
            lab.ask(far, "stop")
            lab.wait(far, "stopped")


def test_a_probe_that_cannot_be_made_is_evidence_and_the_server_stays_ready(lab: Lab) -> None:
    async def failing(client: object, row: object) -> dict:
        raise ValueError("no tokenizer")

    one = lab.create()
    with lab.supervising(prober=failing):
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: any("no tokenizer" in item["text"] for item in row.evidence))
        assert row.probe is None
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


def test_a_fault_of_our_own_is_told_where_people_look_until_it_passes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        with monkeypatch.context() as patch:
            patch.setattr(Tending, "step", _broken)
            row = lab.wait(one, lambda row: "Draftmill failed" in row.message)
            assert "a number too large" in row.message
            assert row.observed_state == "ready"
            assert len(lab.tree(one)) == 1
        lab.wait(one, lambda row: row.message.startswith("Ready"))
        lab.ask(one, "stop")
        lab.wait(one, "stopped")


async def _broken(self: Tending, row: Backend) -> None:
    raise OverflowError("a number too large")


def test_the_worker_may_be_stopped_and_started_with_nothing_to_supervise(lab: Lab) -> None:
    with lab.supervising(prober=passing_probe):
        pass
