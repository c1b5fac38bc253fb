"""GPU memory after an end: it is waited for, within a limit, and who holds it is said. nvidia-smi is played by a script."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from inference.backends.host import gpumemory
from tests.backends.conftest import HURRIED, Lab


class Smi:
    """An `nvidia-smi` first on the PATH, which says what it is told to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        program = folder / "nvidia-smi"
        program.write_text(
            "#!/bin/sh\n"
            'case "$1" in\n'
            f'*compute-apps*) cat "{folder}/apps" 2>/dev/null;;\n'
            f'*) cat "{folder}/used";;\n'
            "esac\n"
        )
        program.chmod(0o755)
        self.says(1_000)

    def says(self, *used: object) -> None:
        part = self.folder / "part"
        part.write_text("".join(f"{index}, {amount}\n" for index, amount in enumerate(used)))
        part.replace(self.folder / "used")


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    made = Smi(tmp_path / "smi")
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    return made


def test_what_is_in_use_is_read_for_each_gpu(smi: Smi) -> None:
    smi.says(1_000, 2_000)
    assert gpumemory.used_mib() == {0: 1_000, 1: 2_000}
    assert gpumemory.excess({0: 1_000, 1: 100}) == {1: 1_900}
    assert gpumemory.excess({0: 900, 1: 1_700}) == {}  # the driver's own share varies


@pytest.mark.parametrize("said", ["[N/A]", ""])
def test_a_gpu_that_does_not_tell_is_not_waited_for(smi: Smi, said: str) -> None:
    smi.says(said)
    assert gpumemory.used_mib() is None
    assert gpumemory.excess({0: 0}) == {}


def test_without_nvidia_smi_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpumemory.used_mib() is None


def test_a_stop_is_not_over_before_the_memory_is_back(lab: Lab, smi: Smi) -> None:
    one = lab.create(device="cuda")
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        smi.says(34_000)
        lab.ask(one, "stop")
        row = lab.wait(one, lambda row: "GPU 0 still holds 33,000 MiB" in row.message)
        assert row.observed_state == "stopping"
        assert lab.tree(one) == []
        time.sleep(0.3)
        assert lab.row(one).observed_state == "stopping"
        smi.says(1_100)
        row = lab.wait(one, "stopped")
    assert "GPU memory is back at its level before the launch." in row.message


def test_memory_that_stays_is_told_with_its_holder_when_the_limit_is_over(lab: Lab, smi: Smi) -> None:
    one = lab.create(device="cuda")
    (smi.folder / "apps").write_text("4711, 33000, python3\n")
    with lab.supervising(replace(HURRIED, memory_deadline_s=0.3)):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        smi.says(34_000)
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert (
        "GPU 0 still holds 33,000 MiB more than before the launch, held by pid 4711 (python3, 33000 MiB)."
        in row.message
    )


def test_a_cpu_server_waits_for_no_gpu(lab: Lab, smi: Smi) -> None:
    one = lab.create(device="cpu")
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        smi.says(34_000)
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert "GPU" not in row.message
