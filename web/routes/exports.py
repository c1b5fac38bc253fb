"""Exports of all runs, and the formats there are."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import ReadSession, Reviewer
from inference.export import service
from inference.runs import service as runs
from web.shell import Twin, page

router = APIRouter(prefix="/exports")


@router.get("")
def list_exports(request: Request, _: Reviewer, session: ReadSession, part: str = "") -> Response:
    """All of them, newest first."""
    found = service.list_exports(session, None)
    view = {
        "exports": found,
        "show_run": True,
        "run_names": {number: runs.run_view(session, number).name for number in {item.run_id for item in found}},
        "formats": service.export_formats(),
        "twin": Twin("/api/v1/exports"),
    }
    return page(request, "exports.html", view, block="rows" if part == "rows" else None)
