"""One look at the GPUs by NVML, NVIDIA's library: what it says, and every trouble it may have in words.

A GPU cut into instances (MIG) stands for itself only where it has none; otherwise its instances stand in its place, since
they are what a process can be given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MIB = 1 << 20

_INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the machine's own process namespace (`PROC_PID_INIT_INO` in Linux): elsewhere the driver's pids may not be ours."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU. `name` is None where it cannot be seen from here; `used_mib` where not told."""

    pid: int
    name: str | None
    used_mib: int | None

    def __str__(self) -> str:
        amount = "" if self.used_mib is None else f", {self.used_mib:,} MiB"
        return f"pid {self.pid} ({self.name or 'not visible from here'}{amount})"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or one instance of it; memory in MiB, None where it does not tell."""

    index: int
    uuid: str
    name: str
    total_mib: int | None
    used_mib: int | None
    processes: tuple[GpuProcess, ...] = ()
    instance: int | None = None
    """Which instance of the GPU `index` (MIG); None: the whole GPU"""

    @property
    def label(self) -> str:
        """`GPU 0`, or `GPU 0 instance 1`."""
        return f"GPU {self.index}" + ("" if self.instance is None else f" instance {self.instance}")


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at all GPUs; `notes` are sentences about what could not be seen, and why."""

    gpus: tuple[Gpu, ...] = ()
    notes: tuple[str, ...] = ()


def look(library: Any) -> Survey:
    """Ask for all GPUs. Never raises; may hang where the driver does.

    Args:
        library: the `pynvml` module.
    """
    try:
        library.nvmlInit()
    except Exception as error:  # noqa: BLE001  (whatever a driver's library does must not reach a page or a stop)
        return Survey(notes=(_no_driver(library, error),))
    try:
        return _survey(library)
    except Exception as error:  # noqa: BLE001  (as above)
        return Survey(notes=(f"The NVIDIA driver failed while it was asked for its GPUs: {error}.",))
    finally:
        _try(library.nvmlShutdown)


def _no_driver(library: Any, error: Exception) -> str:
    code = getattr(error, "value", None)
    if code == library.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "No GPU that NVIDIA's driver knows: this machine (or container) has no libnvidia-ml.so.1."
    if code == library.NVML_ERROR_DRIVER_NOT_LOADED:
        return "NVIDIA's library is here but its driver is not loaded: load the nvidia kernel module to see the GPUs."
    if code == library.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return (
            "NVIDIA's library and kernel module are of different versions, as after an upgrade without a restart: "
            "restart this machine to use its GPUs."
        )
    return f"NVIDIA's driver does not work here: {error}."


def _survey(library: Any) -> Survey:
    found: list[Gpu] = []
    notes: list[str] = []
    count = library.nvmlDeviceGetCount()
    for index in range(count):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
            name = _text(library.nvmlDeviceGetName(handle))
            parts = _instances(library, handle)
            found += [
                _gpu(library, part, index, _try(library.nvmlDeviceGetName, part) or name, at) for at, part in parts
            ]
            if not parts:
                found.append(_gpu(library, handle, index, name, None))
        except Exception as error:  # noqa: BLE001  (one GPU that is lost must not hide the others)
            notes.append(f"GPU {index} does not answer: {error}.")
    if not count:
        notes.append("NVIDIA's driver works, but gives no GPU to this machine (or container).")
    return Survey(tuple(found), tuple(notes))


def _instances(library: Any, handle: Any) -> list[tuple[int, Any]]:
    mode = _try(library.nvmlDeviceGetMigMode, handle)  # [current, pending]; an error where it cannot be cut
    if not mode or mode[0] != library.NVML_DEVICE_MIG_ENABLE:
        return []
    most = _try(library.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    parts = [(at, _try(library.nvmlDeviceGetMigDeviceHandleByIndex, handle, at)) for at in range(most)]
    return [(at, part) for at, part in parts if part is not None]


def _gpu(library: Any, handle: Any, index: int, name: Any, instance: int | None) -> Gpu:
    memory = _try(library.nvmlDeviceGetMemoryInfo, handle)
    held: dict[int, int | None] = {}
    for ask in (library.nvmlDeviceGetComputeRunningProcesses, library.nvmlDeviceGetGraphicsRunningProcesses):
        for process in _try(ask, handle) or ():
            amounts = (held.get(process.pid), process.usedGpuMemory)
            held[process.pid] = max((amount for amount in amounts if amount is not None), default=None)
    processes = (
        GpuProcess(pid, _name_of(pid), None if amount is None else amount // MIB) for pid, amount in held.items()
    )
    return Gpu(
        index=index,
        uuid=_text(library.nvmlDeviceGetUUID(handle)),
        name=_text(name),
        total_mib=None if memory is None else memory.total // MIB,
        used_mib=None if memory is None else memory.used // MIB,
        processes=tuple(sorted(processes, key=lambda process: (-(process.used_mib or 0), process.pid))),
        instance=instance,
    )


def _name_of(pid: int) -> str | None:
    """The process's name; None for one of another container, whose number may be another process's here."""
    try:
        if Path("/proc/self/ns/pid").stat().st_ino != _INITIAL_PID_NAMESPACE:
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            if "nvidia" not in maps and "libcuda" not in maps:
                return None
        return psutil.Process(pid).name()
    except (psutil.Error, OSError):
        return None


def _try(ask: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML says; None where it cannot, as many GPUs cannot one thing or another."""
    try:
        return ask(*arguments)
    except Exception:  # noqa: BLE001  (its own errors, and those of bindings that miss a function)
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
