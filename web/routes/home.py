"""The start page: backends and runs now; on a fresh machine, the way to the first sample."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.responses import Response

from api.deps import ReadSession, Reviewer
from inference.backends import service as backends
from inference.backends.views import BackendView
from inference.prompts import service as prompts
from inference.runs import service as runs
from inference.runs.views import RunView
from web.backends import rows as backend_rows
from web.runs import rows
from web.shell import Twin, page

router = APIRouter()

SHOWN = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One of the first steps."""

    title: str
    text: str
    action: str
    href: str
    done: bool
    current: bool = False


@router.get("/")
def home(request: Request, _: Reviewer, session: ReadSession, part: str = "") -> Response:
    """Everything that is going on, on one page."""
    found = [backends.backend_view(session, backend) for backend in backends.list_backends(session)]
    going = list(runs.list_runs(session, None, SHOWN).items)
    view = {
        "backends": backend_rows(found[:SHOWN]),
        "runs": rows(going),
        "first_steps": _first_steps(session, found, going),
        "twin": Twin("/api/v1/runs"),
    }
    return page(request, "home.html", view, block=part if part in {"backends", "runs"} else None)


def _first_steps(session: Session, found: list[BackendView], going: list[RunView]) -> list[Step]:
    """The way to the first reviewed sample; empty once a run has brought samples."""
    if any(run.counts.done for run in going):
        return []
    first = f"/runs/{going[0].id}" if going else "/runs/new"
    steps = [
        Step(
            "A backend",
            "An SGLang server, started here or attached by its URL.",
            "Set up",
            "/backends/new",
            bool(found),
        ),
        Step(
            "Prompts",
            "A file of prompts or conversations.",
            "Upload",
            "/prompt-sets",
            bool(prompts.list_prompt_sets(session, None, 1).items),
        ),
        Step("A run", "Prompts to samples, every setting shown first.", "Launch", "/runs/new", bool(going)),
        Step(
            "Review",
            "Raw tokens beside segments; verdict, next.",
            "Watch it come in" if going else "Open",
            first,
            done=False,
        ),
    ]
    current = next(number for number, step in enumerate(steps) if not step.done)
    return [
        Step(step.title, step.text, step.action, step.href, step.done, number == current)
        for number, step in enumerate(steps)
    ]
