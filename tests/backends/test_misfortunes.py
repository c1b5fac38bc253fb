"""Misfortunes that people reported of SGLang servers, played by a fake: each ends in a state and a sentence that are true."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest
from sqlmodel import col, select

from db.tables import Backend, BackendEvent, BackendStart
from inference.backends.host import gpus
from tests.backends.conftest import HURRIED, Lab
from tests.support.fake_nvml import Device, FakeNvml

OOM_SERVING = [
    "Scheduler hit an exception: Traceback (most recent call last):",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 143.2 GiB of which 1.1 GiB is free.",
    "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
]
POOL_TOO_SMALL = [
    "Load weight end. elapsed=30.1 s, type=Qwen3ForCausalLM, avail mem=1.02 GB, mem usage=140.00 GB.",
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.8",
]


def starts(lab: Lab, backend_id: int) -> list[BackendStart]:
    with lab.db.read() as s:
        query = select(BackendStart).where(BackendStart.backend_id == backend_id).order_by(col(BackendStart.number))
        return list(s.exec(query))


def history(lab: Lab, backend_id: int) -> list[str]:
    with lab.db.read() as s:
        return list(s.exec(select(BackendEvent.message).where(BackendEvent.backend_id == backend_id)))


def seen_at(row: Backend, source: str) -> datetime:
    """When a signal said what it says."""
    return next(datetime.fromisoformat(item["at"]) for item in row.evidence if item["source"] == source)


def stop(lab: Lab, backend_id: int) -> Backend:
    lab.ask(backend_id, "stop")
    row = lab.wait(backend_id, "stopped")
    assert lab.tree(backend_id) == []
    return row


def generate(row: Backend, tokens: int = 8) -> httpx.Response:
    asked = {"rid": f"ours-{os.urandom(6).hex()}", "input_ids": [5], "sampling_params": {"max_new_tokens": tokens}}
    return httpx.post(f"{row.url}/generate", json=asked, headers=auth(row), timeout=60.0)


def running(row: Backend) -> int:
    loads = httpx.get(f"{row.url}/v1/loads", headers=auth(row), timeout=10.0).json()["loads"]
    return int(loads[0]["num_running_reqs"])


def auth(row: Backend) -> dict[str, str]:
    return {"Authorization": f"Bearer {row.api_key}"}


class HeldMemory:
    """A GPU whose memory a driver gives back only `for_s` after the server's tree is gone, as real ones do."""

    def __init__(self, lab: Lab, for_s: float) -> None:
        self._lab, self._for_s = lab, for_s
        self.backend_id: int | None = None
        """Whose tree holds the memory; None: nobody's"""
        self._gone_at: float | None = None
        self.nvml = FakeNvml(Device("GPU-0", used=1_000))

    def driver(self) -> FakeNvml:
        held = self.backend_id is not None
        if self.backend_id is not None and not self._lab.tree(self.backend_id):
            self._gone_at = self._gone_at or time.monotonic()
            held = time.monotonic() - self._gone_at < self._for_s
        self.nvml.devices = [Device("GPU-0", used=34_000 if held else 1_000)]
        return self.nvml


def test_a_start_waits_until_the_memory_of_the_server_before_is_back(lab: Lab, monkeypatch) -> None:
    held = HeldMemory(lab, for_s=0.8)
    monkeypatch.setattr(gpus, "nvml", held.driver)
    one = lab.create(device="cuda")
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        held.backend_id = one
        lab.ask(one, "restart")
        row = lab.wait(one, lambda row: "still holds" in row.message)
        assert row.observed_state == "stopping"
        assert len(starts(lab, one)) == 1
        lab.wait(one, lambda row: row.observed_state == "ready" and len(starts(lab, one)) == 2)
        first, second = starts(lab, one)
        assert first.ended_at is not None
        assert second.started_at >= first.ended_at
        assert "GPU memory is back" in (first.ending or "")
        stop(lab, one)


def test_a_server_that_ends_by_itself_is_reaped_and_its_code_is_told(lab: Lab, tmp_path: Path) -> None:
    dies = tmp_path / "dies"
    lab.behave(dies=str(dies))
    one = lab.create()
    with lab.supervising(replace(HURRIED, backoff_s=(60.0,))):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        start = lab.start_row(one)
        _write(dies, {"exit": 7})
        row = lab.wait(one, lambda row: row.crashes == 1)
        assert "exit code 7" in row.message
        assert row.observed_state == "backoff"
        assert starts(lab, one)[0].exit_code == 7
        assert not psutil.pid_exists(start.pid or 0), "a zombie was left"
        stop(lab, one)


def test_a_busy_server_is_not_taken_for_dead(lab: Lab, tmp_path: Path) -> None:
    """503 from the health check while a long request is in flight, and the figures say that it is."""
    hold, sick = tmp_path / "hold", tmp_path / "sick"
    lab.behave(hold=str(hold), unhealthy=str(sick))
    one = lab.create()
    with lab.supervising(replace(HURRIED, quiet_s=0.3)), ThreadPoolExecutor(1) as pool:
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        pid = lab.start_row(one).pid
        hold.touch()
        answer = pool.submit(generate, row)
        lab.wait(one, lambda _: running(row) == 1)
        sick.touch()
        seen = len(lab.seen)
        lab.wait(one, lambda row: "busy" in row.message.lower())
        assert "unresponsive" not in {state for state, _ in lab.seen[seen:]}
        hold.unlink()
        sick.unlink()
        assert answer.result(30).status_code == 200
        lab.wait(one, lambda row: row.observed_state == "ready" and "busy" not in row.message.lower())
        assert lab.start_row(one).pid == pid
        assert lab.row(one).crashes == 0
        stop(lab, one)


def test_a_scheduler_that_hangs_is_unresponsive_never_killed_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    """/ready sees nothing of it; only a real request does."""
    stuck, sick = tmp_path / "stuck", tmp_path / "sick"
    lab.behave(stuck=str(stuck), unhealthy=str(sick), ready_is_blind=True)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        pid = lab.start_row(one).pid
        sick.touch()
        stuck.touch()
        lab.wait(one, "unresponsive")
        assert psutil.pid_exists(pid or 0)
        sick.unlink()
        stuck.unlink()
        lab.wait(one, "ready")
        assert lab.start_row(one).pid == pid
        stop(lab, one)


def test_a_listed_model_is_not_ready_before_its_health_is_good(lab: Lab, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    cold.touch()
    lab.behave(unhealthy=str(cold))
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: row.observed_state == "warming_up" and _lists_a_model(row))
        assert httpx.get(f"{row.url}/health", timeout=10.0).status_code == 503
        row = lab.wait(one, lambda row: "fired up" in str(row.evidence))  # the log claims it
        assert row.observed_state == "warming_up"
        cold.unlink()
        lab.wait(one, "ready")
        stop(lab, one)


def test_a_warm_up_of_many_checks_is_waited_for_without_a_limit(lab: Lab) -> None:
    """As 264 s are to checks every two: more than a hundred refusals in a row are no failure."""
    lab.behave(warm_s=2.64)
    one = lab.create()
    with lab.supervising(replace(HURRIED, warming_check_s=0.02, starting_check_s=0.02)):
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        assert row.crashes == 0
        assert len(starts(lab, one)) == 1
        assert not {state for state, _ in lab.seen} & {"failed", "backoff", "unresponsive"}
        log = Path(lab.start_row(one).log_path or "").read_text()
        assert log.count('" 503 ') > 20
        stop(lab, one)


def test_proxies_of_the_environment_stand_neither_before_our_checks_nor_before_the_server(
    lab: Lab, monkeypatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        environment = psutil.Process(lab.start_row(one).pid).environ()
        assert not {"HTTP_PROXY", "http_proxy", "ALL_PROXY"} & environment.keys()
        health = next(item for item in row.evidence if item["source"] == "health")
        assert (row.url or "none") in health["text"]
        stop(lab, one)


@pytest.mark.parametrize(("stage", "told"), [("init", "Initialising"), ("loading", "Loading weights 0/2")])
def test_a_start_up_that_stands_still_shows_its_last_stage_and_is_waited_for(lab: Lab, stage: str, told: str) -> None:
    lab.behave(hang_at=stage)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: row.message.startswith(told))
        assert row.phase is not None
        assert row.phase["since"]
        assert row.error is None
        pid = lab.start_row(one).pid
        evidence = row.evidence
        lab.wait(one, lambda row: row.evidence != evidence)  # it went on looking
        assert lab.row(one).observed_state in {"starting", "loading"}
        assert lab.start_row(one).pid == pid
        lab.wait(
            one, lambda row: seen_at(row, "process") - seen_at(row, "log") > timedelta(seconds=1)
        )  # each has its time
        stop(lab, one)


@pytest.mark.parametrize(
    ("stage", "line", "code"),
    [
        ("start", "OSError: [Errno 28] No space left on device", "disk_full"),
        ("start", "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1)", "gated_model"),
        ("start", "requests.exceptions.ChunkedEncodingError: Connection broken: IncompleteRead(9)", "download_broken"),
        ("init", "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system error", "nccl"),
        ("init", "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients.", "nccl_timeout"),
    ],
)
def test_a_failure_after_which_the_process_lives_on_is_told_while_it_lives(
    lab: Lab, stage: str, line: str, code: str
) -> None:
    lab.behave(hang_at=stage, hang_saying=[line])
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: row.error is not None)
        assert row.error is not None
        assert row.error["code"] == code
        assert line in row.error["lines"]
        assert "while the process lives" in row.message
        assert row.observed_state == "starting"
        assert len(lab.tree(one)) == 1
        stop(lab, one)


HICCUP = "Max retries exceeded with url: https://hub.example/api/models (Caused by NewConnectionError)"


def test_a_trouble_that_the_start_up_gets_over_is_no_longer_told(lab: Lab) -> None:
    lab.behave(say=[HICCUP], load_s=0.2, hang_at="warm_up")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "warming_up")
        assert row.message == "Warm-up."
        assert row.error is None
        stop(lab, one)


def test_an_early_trouble_hides_no_later_one_that_cannot_pass(lab: Lab) -> None:
    lab.behave(say=[HICCUP], steal_port=True)
    one = lab.create()
    with lab.supervising(replace(HURRIED, backoff_s=(60.0,))):
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: row.crashes == 1)
        assert row.error is not None
        assert row.error["code"] == "port_in_use"
        stop(lab, one)


def test_a_server_that_somebody_else_ends_in_order_is_told_as_that_and_started_again(lab: Lab) -> None:
    one = lab.create()
    with lab.supervising(replace(HURRIED, backoff_s=(0.5,))):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        first = lab.start_row(one)
        psutil.Process(first.pid).terminate()
        lab.wait(one, lambda row: row.observed_state == "ready" and len(starts(lab, one)) == 2)
        ended = starts(lab, one)[0]
        assert ended.error is not None
        assert ended.error["code"] == "ended_itself"
        assert "Somebody sent SIGTERM" in (ended.ending or "")
        assert ended.exit_code == 0
        stop(lab, one)


def test_a_question_on_stdin_fails_at_once_and_names_the_setting_that_answers_it(lab: Lab) -> None:
    lab.behave(asks=True)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
    assert row.error is not None
    assert row.error["code"] == "remote_code_needed"
    assert "launch.trust_remote_code" in row.message
    assert len(starts(lab, one)) == 1


@pytest.fixture
def rival(tmp_path: Path) -> Iterator[Path]:
    """Where a rival server writes its pid; it is ended by that."""
    file = tmp_path / "rival"
    yield file
    if file.exists():
        process = psutil.Process(int(file.read_text()))
        process.kill()
        process.wait(10)


def test_a_ready_line_while_another_server_holds_the_port_makes_nothing_ready(lab: Lab, rival: Path) -> None:
    lab.behave(rival=str(rival))
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, lambda _: rival.exists())
        lab.behave()
        row = lab.wait(one, lambda row: row.crashes == 1)
        assert row.error is not None
        assert row.error["code"] == "port_in_use"
        assert starts(lab, one)[0].exit_code == 3
        assert "ready" not in {state for state, _ in lab.seen}
        other = int(rival.read_text())
        lab.wait(one, "ready")
        assert any("is held by " in told and f"pid {other}" in told for told in history(lab, one))
        assert starts(lab, one)[0].port != starts(lab, one)[1].port
        assert psutil.Process(other).status() != psutil.STATUS_ZOMBIE, "a stranger was signalled"
        stop(lab, one)


def test_no_room_for_the_cache_is_not_tried_again_and_says_raise(lab: Lab) -> None:
    lab.behave(say=POOL_TOO_SMALL, signal=signal.SIGKILL)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
    assert row.error is not None
    assert row.error["code"] == "kv_pool_too_small"
    assert "RAISE launch.mem_fraction_static" in row.message
    assert starts(lab, one)[0].exit_code == -signal.SIGKILL
    assert len(starts(lab, one)) == 1


def test_no_room_for_a_step_is_restarted_and_says_lower(lab: Lab, tmp_path: Path) -> None:
    dies = tmp_path / "dies"
    lab.behave(dies=str(dies))
    one = lab.create()
    with lab.supervising(replace(HURRIED, backoff_s=(0.5, 0.5))):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        lab.behave()
        _write(dies, {"say": OOM_SERVING, "signal": signal.SIGKILL})
        row = lab.wait(one, lambda row: row.crashes == 1)
        assert row.error is not None
        assert row.error["code"] == "oom_serving"
        assert "LOWER launch.mem_fraction_static" in row.error["cure"]
        assert any("CUDA out of memory" in line for line in row.error["lines"])
        row = lab.wait(one, lambda row: row.observed_state == "ready" and len(starts(lab, one)) == 2)
        assert row.error is None
        assert starts(lab, one)[0].error is not None, "the start keeps what ended it"
        stop(lab, one)


def test_a_kernel_that_would_not_compile_fails_with_the_compilers_last_words_first(lab: Lab) -> None:
    said = [
        "FAILED: [code=1] decode.cuda.o",
        "decode.cu:7:10: fatal error: cuda_fp8.h: No such file or directory",
        "ninja: build stopped: subcommand failed.",
    ]
    lab.behave(say=said, exit=1)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "failed")
    assert row.error is not None
    assert row.error["code"] == "jit_build"
    assert "FAILED:" in row.error["lines"][0]
    assert any("cuda_fp8.h" in line for line in row.error["lines"])
    assert starts(lab, one)[0].exit_code == 1


def test_a_crashing_server_that_still_accepts_connections_is_no_longer_ready_and_its_end_is_explained(
    lab: Lab, tmp_path: Path
) -> None:
    """During SGLang's crash diagnostics the port is open and nothing is answered; requests hang there."""
    dies = tmp_path / "dies"
    lab.behave(dies=str(dies))
    one = lab.create()
    with lab.supervising(replace(HURRIED, backoff_s=(60.0,), health_timeout_s=0.3)):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        said = [
            "Subprocess scheduler_0 (pid=4711) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
            "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
            "Sleeping 5 seconds before crash diagnostics to let GPU activity settle.",
        ]
        _write(dies, {"say": said, "freeze_s": 3.0, "signal": signal.SIGKILL})
        lab.wait(one, lambda row: row.observed_state != "ready")
        row = lab.wait(one, "backoff")
        assert row.error is not None
        assert row.error["code"] == "child_killed"
        assert "scheduler_0" in row.message
        stop(lab, one)


def test_requests_in_flight_may_finish_before_a_stop(lab: Lab, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    lab.behave(hold=str(hold))
    one = lab.create(drain_limit_s=60)
    with lab.supervising(), ThreadPoolExecutor(4) as pool:
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        hold.touch()
        answers = [pool.submit(generate, row) for _ in range(3)]
        lab.wait(one, lambda _: running(row) == 3)
        lab.ask(one, "stop")
        draining = lab.wait(one, "draining")
        assert draining.deadline_at is not None
        hold.unlink()
        row = lab.wait(one, "stopped")
        assert [answer.result(30).json()["meta_info"]["finish_reason"]["type"] for answer in answers] == ["length"] * 3
    assert "exit code 0" in row.message
    assert "SIGKILL" not in row.message


def test_what_others_have_in_flight_is_waited_for_too(lab: Lab, tmp_path: Path) -> None:
    """The server's own figures count every client's requests, those that still queue among them."""
    loads = tmp_path / "loads"
    lab.behave(loads=str(loads))
    one = lab.create(drain_limit_s=60)
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        _write(loads, {"num_running_reqs": 0, "num_waiting_reqs": 3})
        lab.ask(one, "stop")
        lab.wait(one, lambda row: row.observed_state == "draining" and "3 requests" in row.message)
        assert len(lab.tree(one)) == 1
        assert "SIGTERM received" not in Path(lab.start_row(one).log_path or "").read_text()
        _write(loads, {"num_running_reqs": 0, "num_waiting_reqs": 0})
        row = lab.wait(one, "stopped")
    assert "exit code 0" in row.message


def test_a_megabyte_of_output_before_the_port_opens_blocks_nothing(lab: Lab) -> None:
    lab.behave(flood=11_000)
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        assert Path(lab.start_row(one).log_path or "").stat().st_size > 1_000_000
        stop(lab, one)


def test_a_worker_process_that_outlives_its_parent_is_ended_with_it(lab: Lab) -> None:
    lab.behave(child="stays")
    one = lab.create()
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        start = lab.start_row(one)
        left = [process for process in lab.tree(one) if process.pid != start.pid]
        assert len(left) == 1
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert lab.tree(one) == []
    assert f"port {start.port} is free" in row.message


def _lists_a_model(row: Backend) -> bool:
    try:
        return httpx.get(f"{row.url}/v1/models", headers=auth(row), timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False


def _write(file: Path, how: dict) -> None:
    """All of it at once: the fake looks for it all the time."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(how))
    part.replace(file)
