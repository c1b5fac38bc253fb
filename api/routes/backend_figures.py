"""A server's live figures over time."""

from typing import Annotated

from fastapi import Query

from api.deps import Id, ReadSession, Reviewer
from api.jsonbody import make_router
from inference.backends import figures
from inference.backends.figures import FigureSeries

router = make_router(tag="backends", prefix="/backends")

Minutes = Annotated[int, Query(ge=1, le=figures.MOST_MINUTES, description="How far back, in minutes.")]
Step = Annotated[int | None, Query(ge=1, le=3600, description="Seconds a point; at most 600 points come.")]


@router.get("/{backend_id}/figures")
def get_figures(
    _: Reviewer, backend_id: Id, session: ReadSession, minutes: Minutes = 60, step: Step = None
) -> FigureSeries:
    """Running, queued, KV cache, tokens a second and cache hits over time, oldest first; the newest are in the backend itself."""
    return figures.figure_series(session, backend_id, minutes, step)
