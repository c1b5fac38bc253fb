"""Which unfinished runs send to which backends: what a stop would hold up."""

from collections import defaultdict
from collections.abc import Collection

from sqlmodel import Session, col, select

from db.states import RUN_FINISHED
from db.tables import Run, RunBackend
from inference.model import View


class RunUse(View):
    """A run that uses a backend."""

    id: int
    name: str
    state: str


def runs_on(s: Session, backend_ids: Collection[int]) -> dict[int, list[RunUse]]:
    """Backend → its unfinished runs, newest first; backends without one are left out. One query."""
    query = (
        select(col(RunBackend.backend_id), col(Run.id), col(Run.name), col(Run.state))
        .join(Run, col(Run.id) == col(RunBackend.run_id))
        .where(col(RunBackend.backend_id).in_(backend_ids), col(Run.state).not_in(RUN_FINISHED))
        .order_by(col(Run.id).desc())
    )
    found: dict[int, list[RunUse]] = defaultdict(list)
    for backend_id, run_id, name, state in s.execute(query):
        found[backend_id].append(RunUse(id=run_id, name=name, state=state))
    return dict(found)
