"""The supervisor over the real SGLang, on the CPU with the demo checkpoint: what no fake can prove."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from db.tables import BackendStart
from inference.backends.host.process import ask_interpreter
from inference.backends.logs.reading import read_tail
from inference.backends.supervision.policy import Policy
from tests.backends.conftest import Lab
from tests.support import engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PATIENCE_S = 280.0
POLICY = Policy(backoff_s=(0.5, 0.5), health_s=2.0)


@pytest.fixture
def real(lab: Lab) -> Iterator[Lab]:
    """The lab with the real interpreter and checkpoint in place of the fakes."""
    python, model = engine.engine_python(), engine.demo_model()
    changes = {"sglang_python": python, "model_roots": [*lab.settings.model_roots, model.parent]}
    lab.use(lab.settings.model_copy(update=changes), model)
    lab.patience_s = PATIENCE_S
    return lab


@pytest.mark.timeout(900)
def test_a_real_server_starts_through_its_phases_survives_a_killed_scheduler_and_stops_without_a_trace(
    real: Lab,
) -> None:
    one = real.create(device="cpu", max_running_requests=8)
    with real.supervising(POLICY, prober=None):
        real.ask(one, "start")
        row = real.wait(one, "ready")
        seen = [state for state, _ in real.seen]
        assert [seen.index(state) for state in ("starting", "loading", "warming_up", "ready")] == sorted(
            seen.index(state) for state in ("starting", "loading", "warming_up", "ready")
        )
        first = real.start_row(one)
        assert row.version
        assert row.server_info
        assert row.server_info["weight_version"] == first.weight_version
        assert row.api_key
        raw = (real.settings.data_dir / "logs" / f"backend-{one}" / "start-1.log").read_text(errors="replace")
        assert row.api_key in raw, "SGLang prints its arguments"
        shown = read_tail(real.settings, first, 100_000)
        assert row.api_key not in shown
        assert "fired up" in shown

        row = real.wait(one, lambda row: row.probe)
        assert row.probe is not None
        assert row.probe["ok"], row.probe["refusals"]
        assert row.probe["three_ways"] is not None

        scheduler = next(process for process in real.tree(one) if "scheduler" in " ".join(process.cmdline()))
        os.kill(scheduler.pid, signal.SIGKILL)
        row = real.wait(one, lambda row: row.crashes == 1)
        assert row.error is not None
        assert row.error["code"] == "child_killed"
        assert any("crashed with exit code -9" in line for line in row.error["lines"])

        row = real.wait(one, lambda row: row.observed_state == "ready" and row.start_id != first.id)
        second = real.start_row(one)
        with real.db.read() as s:
            ended = s.get(BackendStart, first.id)
        assert ended is not None
        assert ended.exit_code == -9
        real.ask(one, "stop")
        row = real.wait(one, "stopped")
        assert f"port {second.port} is free" in row.message
        assert "exit code 0" in row.message
    assert real.tree(one) == []
    assert not psutil.pid_exists(second.pid)


def test_a_real_server_stopped_while_it_loads_leaves_no_orphan(real: Lab) -> None:
    one = real.create(device="cpu")
    with real.supervising(POLICY):
        real.ask(one, "start")
        real.wait(
            one, lambda row: row.start_id and len(real.tree(one)) >= 3
        )  # its children import and have not tied themselves to it yet
        real.ask(one, "stop")
        row = real.wait(one, "stopped")
    assert "whole process group" in str(real.seen)
    assert "No process of its tree is left" in row.message
    assert real.tree(one) == []


def test_a_real_refusal_is_read_from_the_log_and_not_tried_again(real: Lab) -> None:
    one = real.create(device="cpu", context_length=10_000_000)
    with real.supervising(POLICY):
        real.ask(one, "start")
        row = real.wait(one, "failed")
    assert row.error is not None
    assert row.error["code"] == "context_too_long"
    assert "launch.context_length" in row.message
    assert real.start_row(one).number == 1
    assert real.start_row(one).exit_code == 1


def test_the_interpreter_is_found_to_have_sglang_without_importing_it(real: Lab) -> None:
    assert real.settings.sglang_python is not None
    code, said = ask_interpreter(
        real.settings.sglang_python, "import importlib.util as u; print(u.find_spec('sglang') is not None)"
    )
    assert (code, said.strip()) == (0, "True")
