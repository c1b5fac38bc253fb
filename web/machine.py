"""This machine on the page of backends: a bar for each GPU's memory, cut by who holds it, and what servers left."""

from dataclasses import dataclass

from sqlmodel import Session

from inference.backends import machine
from inference.backends.machine import GpuView, HolderView, LeftoverView
from web.charts import Part

_OURS, _LEFT, _OTHERS = "clean", "flagged", "skipped"


@dataclass(frozen=True, slots=True)
class GpuBar:
    """A GPU with its memory as a bar: of backends, of what they left, and of everybody else."""

    gpu: GpuView
    parts: tuple[Part, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Gpus:
    """All of them; `notes` are sentences about what could not be seen."""

    bars: tuple[GpuBar, ...]
    notes: tuple[str, ...]


def gpus(session: Session) -> Gpus:
    """The GPUs as they are now. Blocks while the driver answers, for some seconds at most."""
    seen = machine.list_gpus(session)
    return Gpus(tuple(GpuBar(gpu, _parts(gpu), _said(gpu)) for gpu in seen.items), tuple(seen.notes))


def leftovers(session: Session) -> list[LeftoverView]:
    """What servers left, and what was cleaned of late."""
    return machine.list_leftovers(session)


def _parts(gpu: GpuView) -> tuple[Part, ...]:
    """The bar in per cent. What the driver counts and no process is told for goes to everybody else."""
    if not gpu.total_mib or gpu.used_mib is None:
        return ()
    amounts = dict.fromkeys((_OURS, _LEFT, _OTHERS), 0)
    for holder in gpu.processes:
        amounts[_kind(holder)] += holder.used_mib or 0
    amounts[_OTHERS] += max(gpu.used_mib - sum(amounts.values()), 0)
    parts: list[Part] = []
    at = 0.0
    for kind, amount in amounts.items():
        width = min(100 * amount / gpu.total_mib, 100 - at)
        if width > 0:
            parts.append(Part(kind, round(at, 2), round(width, 2)))
            at += width
    return tuple(parts)


def _kind(holder: HolderView) -> str:
    if holder.owner is None:
        return _OTHERS
    return _OURS if holder.owner.running else _LEFT


def _said(gpu: GpuView) -> str:
    if gpu.used_mib is None or gpu.total_mib is None:
        return "It does not tell its memory."
    return f"{gpu.used_mib:,} of {gpu.total_mib:,} MiB in use"
