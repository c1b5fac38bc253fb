"""This machine as people and scripts see it: its GPUs and who holds their memory, and what servers left behind."""

from collections.abc import Iterable
from datetime import UTC, datetime

from sqlmodel import Session, col, select

from db.errors import Conflict, NotFound
from db.tables import Backend, BackendEvent, BackendStart, Leftover
from inference.backends.host import gpus
from inference.backends.host.identity import marker_of, read_marker
from inference.model import View

FRESH_S = 2.0
"""A look at the GPUs this recent serves every page and script that asks."""
PATIENCE_S = 3.0
"""No page waits longer for a driver."""


class OwnerView(View):
    """The backend that a process belongs to; `running`: the start it came from is not over."""

    backend_id: int
    name: str
    start_number: int
    running: bool


class HolderView(View):
    """A process that holds memory of a GPU; `name` is None where it is not visible from here, `used_mib` where not told."""

    pid: int
    name: str | None
    used_mib: int | None
    owner: OwnerView | None


class GpuView(View):
    """A GPU, or one instance of it (MIG); memory in MiB, None where it does not tell."""

    index: int
    instance: int | None
    label: str
    uuid: str
    name: str
    total_mib: int | None
    used_mib: int | None
    processes: list[HolderView]


class GpusView(View):
    """All GPUs of this machine; `notes` say what could not be seen, and why."""

    items: list[GpuView]
    next: str | None = None
    notes: list[str]


class LeftoverView(View):
    """A process tree that a server left: `state` is found, cleaning or cleaned. `pid` is its main or oldest process."""

    id: int
    state: str
    message: str
    pid: int
    name: str
    processes: int
    memory_mib: int | None
    gpu_mib: int | None
    started_at: datetime
    found_at: datetime
    cleaned_at: datetime | None
    owner: OwnerView | None
    """None: no start in this database is known to have made it"""


def list_gpus(s: Session) -> GpusView:
    """The GPUs as they are now, each holder with the backend that it belongs to. Blocks while the driver answers."""
    survey = gpus.survey(FRESH_S, PATIENCE_S)
    seen = [process.pid for gpu in survey.gpus for process in gpu.processes if process.name is not None]
    marks = {pid: marker_of(pid) for pid in seen}  # of one that cannot be seen, the number may be another's here
    owners = _owners(s, filter(None, marks.values()))
    items = [
        GpuView(
            index=gpu.index,
            instance=gpu.instance,
            label=gpu.label,
            uuid=gpu.uuid,
            name=gpu.name,
            total_mib=gpu.total_mib,
            used_mib=gpu.used_mib,
            processes=[
                HolderView(
                    pid=process.pid,
                    name=process.name,
                    used_mib=process.used_mib,
                    owner=owners.get(marks.get(process.pid) or ""),
                )
                for process in gpu.processes
            ],
        )
        for gpu in survey.gpus
    ]
    return GpusView(items=items, notes=list(survey.notes))


def list_leftovers(s: Session) -> list[LeftoverView]:
    """What was left and found, oldest first; cleaned ones stay a quarter of an hour."""
    rows = s.exec(select(Leftover).order_by(col(Leftover.id))).all()
    owners = _owners(s, (row.marker for row in rows))
    return [_leftover(row, owners.get(row.marker)) for row in rows]


def clean_leftover(s: Session, leftover_id: int, user_id: int | None = None) -> LeftoverView:
    """Ask to have it ended; the supervisor does it within seconds, and the row tells what came of it.

    Raises:
        NotFound: there is none of that number (any more: it ended by itself).
        Conflict: `leftover_cleaned`: that was done already.
    """
    row = s.get(Leftover, leftover_id)
    if row is None:
        raise NotFound("leftover", leftover_id)
    if row.cleaned_at is not None:
        raise Conflict("leftover_cleaned", f"Leftover {leftover_id} was cleaned already. {row.message}")
    owner = _owners(s, [row.marker]).get(row.marker)
    if owner is not None and not row.clean_requested:
        line = BackendEvent(backend_id=owner.backend_id, kind="leftover_clean_requested")
        line.message = f"Cleaning asked for: {row.name} (pid {row.pid}), left over from start {owner.start_number}."
        line.detail = {} if user_id is None else {"user_id": user_id}
        s.add(line)
    row.clean_requested = True
    s.add(row)
    s.flush()
    return _leftover(row, owner)


def _owners(s: Session, markers: Iterable[str]) -> dict[str, OwnerView]:
    """Marker → the backend whose start carries it."""
    known = {marker for marker in markers if read_marker(marker) is not None}
    if not known:
        return {}
    query = select(BackendStart, Backend).join(Backend).where(col(BackendStart.weight_version).in_(known))
    return {
        start.weight_version or "": OwnerView(
            backend_id=start.backend_id,
            name=backend.name,
            start_number=start.number,
            running=start.ended_at is None,
        )
        for start, backend in s.exec(query)
    }


def _leftover(row: Leftover, owner: OwnerView | None) -> LeftoverView:
    if row.id is None:
        raise ValueError("the leftover is not stored yet")
    state = "cleaned" if row.cleaned_at is not None else "cleaning" if row.clean_requested else "found"
    return LeftoverView(
        id=row.id,
        state=state,
        message=row.message,
        pid=row.pid,
        name=row.name,
        processes=row.processes,
        memory_mib=row.memory_mib,
        gpu_mib=row.gpu_mib,
        started_at=datetime.fromtimestamp(row.pid_started, UTC),
        found_at=row.found_at,
        cleaned_at=row.cleaned_at,
        owner=owner,
    )
