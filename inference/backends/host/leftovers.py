"""Process trees that carry a start marker: what a server left, should nobody know it to run.

Nothing is signalled here, and whether a tree is a leftover is not decided here: that takes a database.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from inference.backends.host.gpus import survey
from inference.backends.host.identity import (
    Identity,
    Marker,
    group_of,
    identity_of,
    instance_of,
    marked,
    read_marker,
    shares_folder,
)
from inference.backends.host.nvml import MIB

LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class MarkedProcess:
    """A living process of a marked tree; memory is resident, in MiB, None where it was gone before it was asked."""

    identity: Identity
    name: str
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class MarkedTree:
    """All living processes that carry one marker, the main one (or the oldest that is left) first."""

    marker: str
    said: Marker
    ours: bool
    """Whether the marker names this data directory, and its processes see the very one that we see"""
    processes: tuple[MarkedProcess, ...]

    @property
    def main(self) -> MarkedProcess:
        """The server's main process, or the oldest that is left of it."""
        return self.processes[0]

    @property
    def memory_mib(self) -> int | None:
        """Resident memory of all together; what they share counts for each."""
        told = [process.memory_mib for process in self.processes if process.memory_mib is not None]
        return sum(told) if told else None

    @property
    def name(self) -> str:
        """`sglang::scheduler and 2 more processes`."""
        more = len(self.processes) - 1
        rest = "" if not more else f" and {more} more process{'es' if more > 1 else ''}"
        return self.main.name[:LONGEST_NAME] + rest


def marked_trees(data_dir: Path) -> list[MarkedTree]:
    """Every tree with a marker that this or an earlier version made, but for the one we are in ourselves. Reads all of /proc."""
    found: dict[str, list[int]] = {}
    for pid, marker in marked():
        found.setdefault(marker, []).append(pid)
    for marker in [marker for marker, pids in found.items() if _own() & set(pids)]:
        del found[marker]
    instance = instance_of(data_dir)
    trees: list[MarkedTree] = []
    for marker, pids in found.items():
        said = read_marker(marker)
        processes = sorted(filter(None, map(_process, pids)), key=_main_first) if said is not None else []
        if said is None or not processes:
            continue
        ours = said.instance == instance and all(shares_folder(item.identity.pid, data_dir) for item in processes)
        trees.append(MarkedTree(marker, said, ours, tuple(processes)))
    return trees


def gpu_mib(pids: Collection[int]) -> int | None:
    """GPU memory that these processes hold together, in MiB; None where none is told. Blocks for a moment."""
    held = [process.used_mib for gpu in survey(max_age_s=5.0).gpus for process in gpu.processes if process.pid in pids]
    told = [amount for amount in held if amount is not None]
    return sum(told) if told else None


def _own() -> set[int]:
    try:
        return {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    except psutil.Error:
        return {os.getpid()}


def _process(pid: int) -> MarkedProcess | None:
    identity = identity_of(pid)
    if identity is None:
        return None
    try:
        process = psutil.Process(pid)
        return MarkedProcess(identity, process.name(), process.memory_info().rss // MIB)
    except psutil.Error:
        return None


def _main_first(process: MarkedProcess) -> tuple[bool, float, int]:
    pid = process.identity.pid
    return group_of(pid) != pid, process.identity.started, pid
