"""What servers left: the button that has it cleaned. It is shown on the page of backends."""

from fastapi import APIRouter
from starlette.responses import Response

from api.deps import Audit, BigId, Operator, WriteSession
from inference.backends import machine
from web.shell import see

router = APIRouter(prefix="/leftovers")


@router.post("/{leftover_id}/clean")
def clean_leftover(leftover_id: BigId, user: Operator, session: WriteSession, note: Audit) -> Response:
    """Ask to have it ended."""
    leftover = machine.clean_leftover(session, leftover_id, user.id)
    note("leftover.clean", f"leftover/{leftover_id}", name=leftover.name, pid=leftover.pid)
    return see("/backends")
