"""The supervisor over the real SGLang, on the CPU with the demo checkpoint: what no fake can prove."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inference.backends.host.process import ask_interpreter
from inference.backends.supervision.policy import Policy
from tests.backends.conftest import Lab
from tests.support import engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PATIENCE_S = 280.0
POLICY = Policy(backoff_s=(0.5, 0.5))


@pytest.fixture
def real(lab: Lab) -> Iterator[Lab]:
    """The lab with the real interpreter and checkpoint in place of the fakes."""
    python, model = engine.engine_python(), engine.demo_model()
    changes = {"sglang_python": python, "model_roots": [*lab.settings.model_roots, model.parent]}
    lab.use(lab.settings.model_copy(update=changes), model)
    lab.patience_s = PATIENCE_S
    return lab


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


def test_a_model_that_breaks_after_our_check_is_told_by_the_log(real: Lab, tmp_path: Path) -> None:
    broken = real.settings.model_roots[0] / "broken"
    broken.mkdir()
    for file in real.model.iterdir():
        (broken / file.name).symlink_to(file)
    real.use(real.settings, broken)
    one = real.create(device="cpu")
    with real.supervising(POLICY):
        real.ask(one, "start")
        real.wait(one, lambda row: row.start_id and real.start_row(one).pid)
        (broken / "config.json").unlink()  # it imports for seconds before it looks for it
        row = real.wait(one, "failed")
    assert row.error is not None
    assert row.error["code"] in {"model_not_found", "unrecognized_model"}
    assert "config.json" in row.message
    assert real.start_row(one).number == 1
    assert real.tree(one) == []


def test_a_flag_that_this_sglang_refuses_is_named_and_not_tried_again(real: Lab) -> None:
    one = real.create(device="cpu", extra_flags={"schedule_policy": "nonsense"})
    with real.supervising(POLICY):
        real.ask(one, "start")
        row = real.wait(one, "failed")
    assert row.error is not None
    assert row.error["code"] == "bad_flag_value"
    assert "--schedule-policy" in row.message
    assert "nonsense" in row.error["lines"][0]
    assert real.start_row(one).exit_code == 2
    assert real.start_row(one).number == 1


def test_a_main_process_ended_from_outside_while_it_loads_leaves_no_orphan(real: Lab) -> None:
    one = real.create(device="cpu")
    with real.supervising(Policy(backoff_s=(600.0,))):
        real.ask(one, "start")
        real.wait(one, lambda row: row.start_id and len(real.tree(one)) >= 3)
        psutil.Process(real.start_row(one).pid).terminate()
        row = real.wait(one, "backoff")
        assert row.error is not None
        assert row.error["code"] in {"killed", "main_process_killed"}
        assert real.start_row(one).exit_code == -signal.SIGTERM
        assert real.tree(one) == [], "its children had not tied themselves to it yet"
        real.ask(one, "stop")
        real.wait(one, "stopped")


def test_the_interpreter_is_found_to_have_sglang_without_importing_it(real: Lab) -> None:
    assert real.settings.sglang_python is not None
    code, said = ask_interpreter(
        real.settings.sglang_python, "import importlib.util as u; print(u.find_spec('sglang') is not None)"
    )
    assert (code, said.strip()) == (0, "True")
