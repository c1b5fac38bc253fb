"""What servers left behind on this machine: shown, and cleaned when somebody says so."""

from api.deps import PAGE, After, Audit, BigId, Limit, Operator, ReadSession, Reviewer, WriteSession
from api.jsonbody import make_router
from db.queries.pages import page_of_few
from inference.backends import machine
from inference.backends.machine import LeftoverView
from inference.model import Page

router = make_router(tag="backends", prefix="/leftovers")


@router.get("")
def list_leftovers(_: Reviewer, session: ReadSession, limit: Limit = PAGE, after: After = None) -> Page[LeftoverView]:
    """Process trees that belong to no start known to run, oldest first; cleaned ones stay a quarter of an hour."""
    rows, following = page_of_few(machine.list_leftovers(session), lambda row: (row.id,), after, limit)
    return Page(items=list(rows), next=following)


@router.post("/{leftover_id}/clean", status_code=202)
def clean_leftover(user: Operator, leftover_id: BigId, session: WriteSession, audit: Audit) -> LeftoverView:
    """Ask to have it ended, every process of it; look at it again for what came of it."""
    leftover = machine.clean_leftover(session, leftover_id, user.id)
    audit("leftover.clean", f"leftover/{leftover_id}", name=leftover.name, pid=leftover.pid)
    return leftover
