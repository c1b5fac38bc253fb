"""The GPUs of this machine and who holds their memory, by NVML.

Nothing here raises: no driver, a broken one, one that does not match its library, one that hangs, a GPU that does not tell
its memory are all put in words. NVML is opened for one look and closed again: held open, it would keep an operator from
resetting a GPU or changing the driver.

A GPU cut into instances (MIG) stands for itself only where it has none; otherwise its instances stand in its place, since
they are what a process can be given.
"""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MIB = 1 << 20
ANSWER_S = 20.0
"""A driver that says nothing for so long has lost a GPU, and may never answer: nobody waits for it longer."""

LAST_SEEN_S = 60.0
"""While a driver takes its time, what it said this recently still stands."""

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


def list_gpus() -> list[Gpu]:
    """All GPUs as they are now; empty where there is none or the driver does not work. Blocks for a moment."""
    return list(survey().gpus)


def levels(uuids: Collection[str] | None = None) -> dict[str, int] | None:
    """MiB in use by whomever, by UUID: of the GPUs named, or of all. None where nobody can say. Blocks for a moment."""
    wanted = None if uuids is None else set(uuids)
    found = {
        gpu.uuid: gpu.used_mib
        for gpu in survey().gpus
        if gpu.used_mib is not None and (wanted is None or gpu.uuid in wanted)
    }
    return found or None


def label_of(uuid: str) -> str:
    """`GPU 0` for a UUID that was seen before; else the UUID."""
    return _SURVEYOR.labels.get(uuid, uuid)


def survey(max_age_s: float = 0.0, patience_s: float = ANSWER_S) -> Survey:
    """Look at the GPUs, or take a look of the last `max_age_s`. Blocks for a moment, `patience_s` at most.

    Where the driver takes longer than that, its answer serves the next caller; this one gets the last of the past minute.
    """
    return _SURVEYOR.survey(max_age_s, patience_s)


def nvml() -> Any:
    """NVIDIA's bindings. The seam for tests.

    Raises:
        ImportError: they are not installed.
    """
    import pynvml

    return pynvml


class Surveyor:
    """Looks at the GPUs beside the caller's thread, one look at a time, so that a hanging driver holds up nobody for long."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self._lock = threading.Lock()
        self._looking: tuple[threading.Thread, float] | None = None
        self._last: tuple[float, Survey] | None = None

    def survey(self, max_age_s: float = 0.0, patience_s: float = ANSWER_S) -> Survey:
        """As the function of that name."""
        with self._lock:
            if (found := self._young(max_age_s)) is not None:
                return found
            if self._looking is None or not self._looking[0].is_alive():  # one that hangs is not asked a second time
                thread = threading.Thread(target=self._look, daemon=True, name="nvml")
                self._looking = thread, time.monotonic()
                thread.start()
            thread, since = self._looking
        if time.monotonic() - since < ANSWER_S:
            thread.join(patience_s)
        if thread.is_alive() or self._last is None:
            return self._unanswered(since)
        return self._last[1]

    def _look(self) -> None:
        found = _look()
        self.labels |= {gpu.uuid: gpu.label for gpu in found.gpus}
        self._last = time.monotonic(), found

    def _young(self, max_age_s: float) -> Survey | None:
        last = self._last
        return last[1] if last is not None and time.monotonic() - last[0] < max_age_s else None

    def _unanswered(self, since: float) -> Survey:
        waited = time.monotonic() - since
        if waited < ANSWER_S and (found := self._young(LAST_SEEN_S)) is not None:
            return found
        return Survey(
            notes=(f"The NVIDIA driver has not answered for {waited:.0f} s: look at `dmesg` for a GPU it has lost.",)
        )


_SURVEYOR = Surveyor()


def _look() -> Survey:
    try:
        library = nvml()
    except ImportError as error:
        return Survey(notes=(f"GPUs cannot be listed: NVIDIA's bindings are not installed ({error}).",))
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
