"""Temporary files and shared memory that killed servers left: noted while the servers live, removed when they are gone."""

import time

import structlog
from sqlmodel import select

from db.engine import Database
from db.tables import BackendStart
from inference.backends.host import litter
from inference.backends.host.identity import Identity, marked
from inference.backends.host.leftovers import MarkedTree
from inference.settings import Settings

log = structlog.get_logger(__name__)

UNKNOWN_S = 600.0
"""The folder of a start that is not in the database is left alone for so long: it may be about to be written down."""
SOONEST_S = 30.0


class Litter:
    """Keeps the notes and sweeps.

    Args:
        database: which starts are over.
        settings: whose data directory.
        unknown_s: the seam for tests.
    """

    def __init__(self, database: Database, settings: Settings, unknown_s: float = UNKNOWN_S) -> None:
        self._db = database
        self._settings = settings
        self._unknown_s = unknown_s
        self._due: dict[Identity, float] = {}

    def tidy(self, trees: list[MarkedTree]) -> None:
        """Note what the processes of all living starts share, and sweep after those of which none lives. Reads /proc."""
        for tree in trees:
            self._note(tree)
        living = {item.identity for tree in trees for item in tree.processes}
        self._due = {identity: due for identity, due in self._due.items() if identity in living}
        over = [marker for marker in litter.markers(self._settings.data_dir) if self._is_over(marker)]
        alive = {marker for _, marker in marked()} if over else set()  # asked last: what was found may be old by now
        for marker in over:
            if marker not in alive:
                log.info("swept after a server", marker=marker, removed=litter.sweep(marker))

    def _note(self, tree: MarkedTree) -> None:
        """Each process soon after its birth, and ever more seldom as it grows old: a map of memory is long to read."""
        now = time.time()
        due = [item.identity for item in tree.processes if self._due.get(item.identity, 0.0) <= now]
        if due:
            litter.note_shared(tree.marker, [identity.pid for identity in due])
        for identity in due:
            self._due[identity] = now + max(SOONEST_S, now - identity.started)

    def _is_over(self, marker: str) -> bool:
        with self._db.read() as s:
            start = s.exec(select(BackendStart).where(BackendStart.weight_version == marker)).first()
        if start is not None:
            return start.ended_at is not None
        return litter.age_s(marker, time.time()) >= self._unknown_s
