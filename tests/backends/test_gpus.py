"""GPUs as NVIDIA's driver tells them: what is listed, who holds memory, and every trouble in words. The driver is played."""

import os
import threading
from collections.abc import Callable

import psutil
import pytest

from inference.backends.host import gpus, nvml
from inference.backends.host.gpus import Gpu, GpuProcess, Surveyor
from tests.support import fake_nvml
from tests.support.fake_nvml import Device, FakeNvml

Play = Callable[[FakeNvml], FakeNvml]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    def played(fake: FakeNvml) -> FakeNvml:
        monkeypatch.setattr(gpus, "nvml", lambda: fake)
        return fake

    return played


def test_each_gpu_is_listed_with_its_memory_and_who_holds_it(play: Play) -> None:
    fake = play(
        FakeNvml(
            Device(
                "GPU-a", used=34_000, compute=[(os.getpid(), 33_000), (2**22 + 1, 900)], graphics=[(os.getpid(), None)]
            ),
            Device("GPU-b", name="NVIDIA L4", total=23_034),
        )
    )
    mine = psutil.Process().name()
    first, second = gpus.list_gpus()
    assert first == Gpu(
        0,
        "GPU-a",
        "NVIDIA H200",
        143_771,
        34_000,
        (GpuProcess(os.getpid(), mine, 33_000), GpuProcess(2**22 + 1, None, 900)),
    )
    assert second == Gpu(1, "GPU-b", "NVIDIA L4", 23_034, 0)
    assert fake.opened == 0  # held open, nobody could reset the GPU or change the driver


def test_a_process_in_a_container_without_the_driver_in_its_memory_is_not_named(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "_INITIAL_PID_NAMESPACE", -1)  # as in a container: the driver's numbers are another's
    play(FakeNvml(Device("GPU-a", compute=[(os.getpid(), 10)])))
    (process,) = gpus.list_gpus()[0].processes
    assert process.name is None
    assert str(process) == f"pid {os.getpid()} (not visible from here, 10 MiB)"


def test_levels_are_of_the_gpus_asked_for(play: Play) -> None:
    play(FakeNvml(Device("GPU-a", used=100), Device("GPU-b", used=200), Device("GPU-c", total=None)))
    assert gpus.levels() == {"GPU-a": 100, "GPU-b": 200}
    assert gpus.levels(["GPU-b"]) == {"GPU-b": 200}
    assert gpus.levels(["GPU-c"]) is None
    assert gpus.levels(["GPU-x"]) is None
    assert gpus.label_of("GPU-b") == "GPU 1"
    assert gpus.label_of("GPU-never-seen") == "GPU-never-seen"


def test_a_gpu_that_does_not_tell_its_memory_is_listed_all_the_same(play: Play) -> None:
    play(FakeNvml(Device("GPU-a", name="NVIDIA GB10", total=None, compute=[(os.getpid(), None)])))
    (gpu,) = gpus.list_gpus()
    assert (gpu.total_mib, gpu.used_mib) == (None, None)
    assert gpu.processes[0].used_mib is None
    assert gpus.levels() is None


def test_a_gpu_cut_into_instances_is_listed_as_these(play: Play) -> None:
    parts = [
        Device("MIG-1", name="NVIDIA H200 MIG 1g.18gb", total=16_384, used=500),
        None,
        Device("MIG-3", total=16_384),
    ]
    play(FakeNvml(Device("GPU-a", parts=parts), Device("GPU-b", parts=[None, None])))
    assert [(gpu.label, gpu.uuid, gpu.name) for gpu in gpus.list_gpus()] == [
        ("GPU 0 instance 0", "MIG-1", "NVIDIA H200 MIG 1g.18gb"),
        ("GPU 0 instance 2", "MIG-3", "NVIDIA H200"),
        ("GPU 1", "GPU-b", "NVIDIA H200"),
    ]
    assert gpus.levels(["MIG-1"]) == {"MIG-1": 500}


def test_a_lost_gpu_does_not_hide_the_others(play: Play) -> None:
    play(FakeNvml(Device("GPU-a", broken=fake_nvml.NVML_ERROR_GPU_IS_LOST), Device("GPU-b")))
    survey = gpus.survey()
    assert [gpu.uuid for gpu in survey.gpus] == ["GPU-b"]
    assert survey.notes == ("GPU 0 does not answer: GPU is lost.",)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (fake_nvml.NVML_ERROR_LIBRARY_NOT_FOUND, "has no libnvidia-ml.so.1"),
        (fake_nvml.NVML_ERROR_DRIVER_NOT_LOADED, "load the nvidia kernel module"),
        (fake_nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "restart this machine"),
        (fake_nvml.NVML_ERROR_NO_PERMISSION, "does not work here: Insufficient Permissions"),
        (fake_nvml.NVML_ERROR_UNKNOWN, "does not work here: Unknown Error"),
    ],
)
def test_a_driver_that_does_not_work_is_put_in_words(play: Play, error: int, said: str) -> None:
    play(FakeNvml(fails=error))
    survey = gpus.survey()
    assert survey.gpus == ()
    assert said in survey.notes[0]
    assert gpus.list_gpus() == []
    assert gpus.levels() is None


def test_missing_bindings_and_a_machine_without_a_gpu_are_put_in_words(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(FakeNvml())
    assert gpus.survey().notes == ("NVIDIA's driver works, but gives no GPU to this machine (or container).",)

    def missing() -> object:
        raise ImportError("No module named 'pynvml'")

    monkeypatch.setattr(gpus, "nvml", missing)
    assert "bindings cannot be loaded" in gpus.survey().notes[0]


def test_a_driver_that_hangs_holds_nobody_up_and_is_not_asked_twice(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    fake = play(FakeNvml(Device("GPU-a"), hangs=answers))
    surveyor = Surveyor()
    try:
        for _ in range(3):
            assert "has not answered for" in surveyor.survey(patience_s=0.05).notes[0]
        assert fake.looks == 1
    finally:
        answers.set()
    assert surveyor._looking is not None
    surveyor._looking[0].join()
    assert [gpu.uuid for gpu in surveyor.survey(max_age_s=3600).gpus] == ["GPU-a"]  # its late answer serves the next
    assert fake.looks == 1


def test_while_a_driver_takes_its_time_what_it_said_last_stands_for_a_while(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = play(FakeNvml(Device("GPU-a")))
    surveyor = Surveyor()
    surveyor.survey()
    fake.hangs = threading.Event()
    try:
        assert [gpu.uuid for gpu in surveyor.survey(patience_s=0.01).gpus] == ["GPU-a"]
        monkeypatch.setattr(gpus, "ANSWER_S", 0.0)  # as if it had hung for longer
        assert "has not answered" in surveyor.survey(patience_s=0.01).notes[0]
    finally:
        fake.hangs.set()


def test_a_recent_look_serves_those_who_do_not_need_a_new_one(play: Play) -> None:
    fake = play(FakeNvml(Device("GPU-a")))
    surveyor = Surveyor()
    assert surveyor.survey() == surveyor.survey(max_age_s=3600)
    assert fake.looks == 1
    surveyor.survey()
    assert fake.looks == 2


def test_the_real_bindings_have_what_is_asked_of_them() -> None:
    library = gpus.nvml()
    played = [name for name in dir(FakeNvml) if name.startswith(("nvml", "NVML"))]
    assert len(played) > 12
    for name in played:
        assert hasattr(library, name), name
        if name.startswith("NVML_"):
            assert getattr(library, name) == getattr(FakeNvml, name)
    for name in dir(fake_nvml):
        if name.startswith("NVML_ERROR_"):
            code = getattr(fake_nvml, name)
            assert getattr(library, name) == code
            assert str(library.NVMLError(code)) == str(fake_nvml.NVMLError(code))
            assert library.NVMLError(code).value == code
