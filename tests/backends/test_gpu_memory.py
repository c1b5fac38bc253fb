"""GPU memory after an end: it is waited for, within a limit, and who holds it is said. the driver is played."""

import time
from dataclasses import replace

import pytest

from inference.backends.host import gpumemory, gpus
from tests.backends.conftest import HURRIED, Lab
from tests.support.fake_nvml import NVML_ERROR_LIBRARY_NOT_FOUND, Device, FakeNvml


class Driver:
    """A played driver, which says of each GPU what it is told to."""

    def __init__(self) -> None:
        self.nvml = FakeNvml()
        self.says(1_000)

    def says(self, *used: int | None, holders: list[tuple[int, int | None]] | None = None) -> None:
        self.nvml.devices = [
            Device(f"GPU-{index}", used=amount or 0, total=None if amount is None else 143_771, compute=holders or [])
            for index, amount in enumerate(used)
        ]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(gpus, "nvml", lambda: made.nvml)
    return made


def test_what_is_in_use_is_read_for_each_gpu(driver: Driver) -> None:
    driver.says(1_000, 2_000)
    assert gpumemory.used_mib() == {"GPU-0": 1_000, "GPU-1": 2_000}
    assert gpumemory.used_mib(["GPU-1"]) == {"GPU-1": 2_000}
    assert gpumemory.excess({"GPU-0": 1_000, "GPU-1": 100}) == {"GPU-1": 1_900}
    assert gpumemory.excess({"GPU-0": 900, "GPU-1": 1_700}) == {}  # the driver's own share varies


def test_only_the_gpus_of_the_launch_are_waited_for(driver: Driver) -> None:
    driver.says(1_000, 90_000)
    assert gpumemory.excess({"GPU-0": 1_000}) == {}
    assert gpumemory.wait_released({"GPU-0": 1_000}, 60.0) == "GPU memory is back at its level before the launch."


def test_a_gpu_that_does_not_tell_is_not_waited_for(driver: Driver) -> None:
    driver.says(None)
    assert gpumemory.used_mib() is None
    assert gpumemory.excess({"GPU-0": 0}) == {}


def test_without_a_driver_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "nvml", lambda: FakeNvml(fails=NVML_ERROR_LIBRARY_NOT_FOUND))
    assert gpumemory.used_mib() is None
    said = gpumemory.wait_released(
        {"GPU-0": 0}, 60.0
    )  # it told before the launch: what it cannot tell now is not claimed
    assert said.startswith("Whether its GPUs have their memory back cannot be seen: No GPU that NVIDIA's driver knows")


def test_a_stop_is_not_over_before_the_memory_is_back(lab: Lab, driver: Driver) -> None:
    one = lab.create(device="cuda")
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        driver.says(34_000)
        lab.ask(one, "stop")
        row = lab.wait(one, lambda row: "GPU 0 still holds 33,000 MiB" in row.message)
        assert row.observed_state == "stopping"
        assert lab.tree(one) == []
        time.sleep(0.3)
        assert lab.row(one).observed_state == "stopping"
        driver.says(1_100)
        row = lab.wait(one, "stopped")
    assert "GPU memory is back at its level before the launch." in row.message


def test_memory_that_stays_is_told_with_its_holder_when_the_limit_is_over(lab: Lab, driver: Driver) -> None:
    one = lab.create(device="cuda")
    with lab.supervising(replace(HURRIED, memory_deadline_s=0.3)):
        lab.ask(one, "start")
        lab.wait(one, "ready")
        driver.says(34_000, holders=[(2**22 + 1, 33_000)])
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    holder = f"pid {2**22 + 1} (not visible from here, 33,000 MiB)"
    assert f"GPU 0 still holds 33,000 MiB more than before the launch, held by {holder}." in row.message


def test_a_cpu_server_waits_for_no_gpu(lab: Lab, driver: Driver) -> None:
    one = lab.create(device="cpu")
    with lab.supervising():
        lab.ask(one, "start")
        lab.wait(one, "ready")
        driver.says(34_000)
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert "GPU" not in row.message
