"""NVIDIA's bindings, played: the functions, constants and errors of `pynvml` that GPUs are listed with, over GPUs of a test.

Signatures, error codes and shapes are those of nvidia-ml-py 13: memory in bytes, `usedGpuMemory` None where it is not told,
every failure an `NVMLError` with its code in `value`, nothing answered before `nvmlInit` or after `nvmlShutdown`.
"""

import threading
from dataclasses import dataclass, field

MIB = 1 << 20

NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
NVML_ERROR_UNKNOWN = 999

_WORDS = {
    NVML_ERROR_UNINITIALIZED: "Uninitialized",
    NVML_ERROR_NOT_SUPPORTED: "Not Supported",
    NVML_ERROR_NO_PERMISSION: "Insufficient Permissions",
    NVML_ERROR_NOT_FOUND: "Not Found",
    NVML_ERROR_DRIVER_NOT_LOADED: "Driver Not Loaded",
    NVML_ERROR_LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    NVML_ERROR_GPU_IS_LOST: "GPU is lost",
    NVML_ERROR_LIB_RM_VERSION_MISMATCH: "RM has detected an NVML/RM version mismatch.",
    NVML_ERROR_UNKNOWN: "Unknown Error",
}


class NVMLError(Exception):
    """As pynvml's: the code is in `value`."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return _WORDS.get(self.value, f"NVML Error with code {self.value}")


@dataclass
class Memory:
    """`c_nvmlMemory_t`, in bytes."""

    total: int
    free: int
    used: int


@dataclass
class Process:
    """One of the running processes."""

    pid: int
    usedGpuMemory: int | None  # noqa: N815  (NVML's name)


@dataclass
class Device:
    """A GPU of a test, or an instance of one. Memory in MiB; None: it does not tell. `broken`: an error for every question."""

    uuid: str
    name: str = "NVIDIA H200"
    total: int | None = 143_771
    used: int = 0
    compute: list[tuple[int, int | None]] = field(default_factory=list)
    graphics: list[tuple[int, int | None]] = field(default_factory=list)
    parts: list["Device | None"] | None = None
    """Instances by slot, where it is in MIG mode"""
    broken: int | None = None


class FakeNvml:
    """The module: `monkeypatch.setattr(gpus, "nvml", lambda: fake)`.

    Args:
        devices: the GPUs, changed by the test as it likes.
        fails: the error that `nvmlInit` raises.
        hangs: set, `nvmlInit` waits until it is cleared by the test setting the event.
    """

    NVML_DEVICE_MIG_ENABLE = 1
    NVML_DEVICE_MIG_DISABLE = 0
    NVML_ERROR_LIBRARY_NOT_FOUND = NVML_ERROR_LIBRARY_NOT_FOUND
    NVML_ERROR_DRIVER_NOT_LOADED = NVML_ERROR_DRIVER_NOT_LOADED
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = NVML_ERROR_LIB_RM_VERSION_MISMATCH
    NVMLError = NVMLError

    def __init__(self, *devices: Device, fails: int | None = None, hangs: threading.Event | None = None) -> None:
        self.devices = list(devices)
        self.fails = fails
        self.hangs = hangs
        self.opened = 0
        self.looks = 0

    def nvmlInit(self) -> None:  # noqa: N802  (NVML's name, as all below)
        self.looks += 1
        if self.hangs is not None:
            self.hangs.wait()
        if self.fails is not None:
            raise NVMLError(self.fails)
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self._asked()
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._asked()
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:  # noqa: N802
        return self._whole(self.devices[index])

    def nvmlDeviceGetName(self, handle: Device) -> str:  # noqa: N802
        return self._whole(handle).name

    def nvmlDeviceGetUUID(self, handle: Device) -> str:  # noqa: N802
        return self._whole(handle).uuid

    def nvmlDeviceGetMemoryInfo(self, handle: Device) -> Memory:  # noqa: N802
        device = self._whole(handle)
        if device.total is None:
            raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
        return Memory(device.total * MIB, (device.total - device.used) * MIB, device.used * MIB)

    def nvmlDeviceGetMigMode(self, device: Device) -> list[int]:  # noqa: N802
        if self._whole(device).parts is None:
            raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
        return [self.NVML_DEVICE_MIG_ENABLE, self.NVML_DEVICE_MIG_ENABLE]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Device) -> int:  # noqa: N802
        return len(self._whole(device).parts or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Device, index: int) -> Device:  # noqa: N802
        part = (self._whole(device).parts or [])[index]
        if part is None:
            raise NVMLError(NVML_ERROR_NOT_FOUND)
        return part

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Device) -> list[Process]:  # noqa: N802
        return self._processes(self._whole(handle).compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Device) -> list[Process]:  # noqa: N802
        return self._processes(self._whole(handle).graphics)

    def _asked(self) -> None:
        if self.opened < 1:
            raise NVMLError(NVML_ERROR_UNINITIALIZED)

    def _whole(self, device: Device) -> Device:
        self._asked()
        if device.broken is not None:
            raise NVMLError(device.broken)
        return device

    @staticmethod
    def _processes(held: list[tuple[int, int | None]]) -> list[Process]:
        return [Process(pid, None if amount is None else amount * MIB) for pid, amount in held]
