"""The GPUs of the machine that Draftmill runs on."""

from api.deps import ReadSession, Reviewer
from api.jsonbody import make_router
from inference.backends import machine
from inference.backends.machine import GpusView

router = make_router(tag="backends", prefix="/gpus")


@router.get("")
def list_gpus(_: Reviewer, session: ReadSession) -> GpusView:
    """All of them with who holds their memory; where there is none, or the driver does not work, `notes` says so."""
    return machine.list_gpus(session)
