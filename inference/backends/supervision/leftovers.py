"""Leftovers: trees with a marker of ours that no start is known to own. They are shown, and cleaned when a person says so.

How one comes to be: Draftmill and a server's main process were killed together, a tree would not die while its end was
waited for, a backend or the whole database was removed under a server that ran.

A tree is found before the database is read: a start is written down before its process exists, so whatever is found and
stands nowhere was not about to be written. Those that began or ended within the last moments are left alone all the same.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlmodel import Session, col, select

from db.engine import Database
from db.tables import Backend, BackendEvent, BackendStart, Leftover
from db.types import now, storable
from inference.backends.host.leftovers import MarkedTree, gpu_mib, marked_trees
from inference.backends.host.process import ServerProcess, wait_gone
from inference.backends.supervision.litter import Litter
from inference.settings import Settings

log = structlog.get_logger(__name__)

MEMORY_STEP_MIB = 64
"""A change of memory below this is not worth a write."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long each thing may take, in seconds."""

    grace_s: float = 10.0
    """A tree must have lived so long, and its start been over so long, before it counts as left over."""
    kill_s: float = 10.0
    """Killed processes may take so long to be gone."""
    shown_s: float = 900.0
    """A cleaned one stays listed, for whoever asked to see what came of it."""


class Leftovers:
    """Finds leftovers, writes them down, and cleans those that a person wants cleaned.

    Args:
        database: where they are written.
        settings: the data directory whose markers are ours.
        patience: the seam for tests.
    """

    def __init__(self, database: Database, settings: Settings, patience: Patience | None = None) -> None:
        self._db = database
        self._settings = settings
        self._patience = patience or Patience()
        self._litter = Litter(database, settings)

    async def step(self) -> None:
        """Look at every process once, bring the list up to date, do what was asked for, and sweep after those that are gone."""
        trees = await asyncio.to_thread(marked_trees, self._settings.data_dir)
        await asyncio.to_thread(self._look, trees)
        await self.clean()
        await asyncio.to_thread(self._litter.tidy, trees)

    async def clean(self) -> None:
        """Clean what a person asked to have cleaned; cheap where nobody did."""
        for leftover_id in await asyncio.to_thread(self._asked):
            await asyncio.to_thread(self._clean, leftover_id)

    def _look(self, trees: list[MarkedTree]) -> None:
        with self._db.read() as s:
            strays = {tree.marker: tree for tree in trees if self._is_stray(s, tree)}
            known = {row.marker: row for row in s.exec(select(Leftover).where(col(Leftover.cleaned_at).is_(None)))}
            old = now() - timedelta(seconds=self._patience.shown_s)
            faded = s.exec(select(Leftover.id).where(col(Leftover.cleaned_at) < old)).all()
        held = {marker: gpu_mib({item.identity.pid for item in tree.processes}) for marker, tree in strays.items()}
        changed = [tree for tree in strays.values() if _differs(known.get(tree.marker), tree, held[tree.marker])]
        gone = [row.id for marker, row in known.items() if marker not in strays and not row.clean_requested]
        if not changed and not gone and not faded:
            return
        with self._db.write() as s:
            for tree in changed:
                self._write(s, tree, held[tree.marker])
            for row_id in [*gone, *faded]:
                row = s.get(Leftover, row_id)
                if row is not None:
                    s.delete(row)

    def _is_stray(self, s: Session, tree: MarkedTree) -> bool:
        """Whether it is ours, past its grace, and of no start that is not over."""
        start = _start_of(s, tree)
        if start is None:
            return tree.ours and time.time() - tree.main.identity.started >= self._patience.grace_s
        if start.ended_at is None:
            return False
        return now() - start.ended_at >= timedelta(seconds=self._patience.grace_s)

    def _write(self, s: Session, tree: MarkedTree, gpu: int | None) -> None:
        same = select(Leftover).where(Leftover.marker == tree.marker, col(Leftover.cleaned_at).is_(None))
        row = s.exec(same).first()
        new = row is None
        row = row or Leftover(marker=tree.marker, pid=0, pid_started=0.0, name="")
        row.pid, row.pid_started = tree.main.identity.pid, tree.main.identity.started
        row.name, row.processes = storable(tree.name), len(tree.processes)
        row.memory_mib, row.gpu_mib = tree.memory_mib, gpu
        s.add(row)
        if not new:
            return
        start = _start_of(s, tree)
        backend = s.get(Backend, start.backend_id) if start is not None else None
        whose = (
            f"start {start.number} of {backend.name}"
            if start is not None and backend is not None
            else "an unknown start"
        )
        row.message = f"Left over from {whose}: {row.name}, pid {row.pid}."
        log.warning("a process is left over", marker=tree.marker, pid=row.pid, name=row.name)
        self._event(s, tree, "leftover_found", f"{row.message} It runs on until somebody has it cleaned.")

    def _asked(self) -> list[int]:
        with self._db.read() as s:
            wanted = select(Leftover.id).where(col(Leftover.clean_requested), col(Leftover.cleaned_at).is_(None))
            return [row_id for row_id in s.exec(wanted) if row_id is not None]

    def _clean(self, leftover_id: int) -> None:
        with self._db.read() as s:
            row = s.get(Leftover, leftover_id)
        if row is None:
            return
        tree = next((tree for tree in marked_trees(self._settings.data_dir) if tree.marker == row.marker), None)
        with self._db.read() as s:
            start = _start_of(s, tree) if tree is not None else None
        if tree is None:
            gone, message = True, f"Nothing was left to clean: {row.name} had ended by itself."
        elif start is not None and start.ended_at is None:
            gone, message = False, "Not cleaned: a start that runs owns it now."
        elif start is None and not tree.ours:
            gone, message = False, "Not cleaned: it belongs to another data directory."
        else:
            gone, message = self._end(tree)
        log.info("a leftover was to be cleaned", marker=row.marker, outcome=message)
        with self._db.write() as s:
            kept = s.get(Leftover, leftover_id)
            if kept is not None:
                kept.clean_requested, kept.message = False, storable(message)
                kept.cleaned_at = now() if gone else None
            if tree is not None:
                self._event(s, tree, "leftover_cleaned" if gone else "leftover_stays", message)

    def _end(self, tree: MarkedTree) -> tuple[bool, str]:
        """Kill what carries that marker, each process by pid and start time together; whether all is gone, and how it went."""
        left = wait_gone(ServerProcess.gone(tree.main.identity, tree.marker), self._patience.kill_s)
        if not left:
            ended = ", ".join(f"{item.name} (pid {item.identity.pid})" for item in tree.processes)
            return True, f"Cleaned: {ended} got SIGKILL, and nothing of it is left."
        return False, (
            f"Not all of it could be ended: {', '.join(map(str, left))} did not die of SIGKILL within "
            f"{self._patience.kill_s:g} s. A process that waits inside the kernel, often for a GPU, ends when that "
            "answers, or with a restart of the machine."
        )

    @staticmethod
    def _event(s: Session, tree: MarkedTree, kind: str, message: str) -> None:
        """A line in the history of its backend; a start that is not in this database has none, whatever its number says."""
        start = _start_of(s, tree)
        if start is not None:
            line = BackendEvent(backend_id=start.backend_id, start_id=start.id, kind=kind, message=storable(message))
            s.add(line)


def _start_of(s: Session, tree: MarkedTree) -> BackendStart | None:
    return s.exec(select(BackendStart).where(BackendStart.weight_version == tree.marker)).first()


def _differs(row: Leftover | None, tree: MarkedTree, gpu: int | None) -> bool:
    if row is None or (row.pid, row.processes) != (tree.main.identity.pid, len(tree.processes)):
        return True
    if row.name != storable(tree.name):
        return True
    pairs = ((row.memory_mib, tree.memory_mib), (row.gpu_mib, gpu))
    return any((a is None) != (b is None) or abs((a or 0) - (b or 0)) >= MEMORY_STEP_MIB for a, b in pairs)
