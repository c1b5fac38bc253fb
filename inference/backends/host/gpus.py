"""The GPUs of this machine and who holds their memory, by NVML.

Nothing here raises: no driver, a broken one, one that does not match its library, one that hangs, a GPU that does not tell
its memory are all put in words. NVML is opened for one look and closed again: held open, it would keep an operator from
resetting a GPU or changing the driver.
"""

import threading
import time
from collections.abc import Collection
from typing import Any

from inference.backends.host.nvml import Gpu, GpuProcess, Survey, look

__all__ = ["Gpu", "GpuProcess", "Survey", "Surveyor", "label_of", "levels", "list_gpus", "nvml", "survey"]

ANSWER_S = 20.0
"""A driver that says nothing for so long has lost a GPU, and may never answer: nobody waits for it longer."""

LAST_SEEN_S = 60.0
"""While a driver takes its time, what it said this recently still stands."""


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
        try:
            found = look(nvml())
        except Exception as error:  # noqa: BLE001  (bindings that are missing, or broken in whatever way)
            found = Survey(notes=(f"GPUs cannot be listed: NVIDIA's bindings cannot be loaded ({error}).",))
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
