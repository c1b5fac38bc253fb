"""The lives of one backend, each start with how it went and how it ended."""

from datetime import datetime

from sqlmodel import Session, col, select

from db.tables import BackendStart
from inference.model import View

SHOWN = 20


class StartView(View):
    """One start: `ready_s` is how long it took to be ready, None where it never was; `ending` how it ended, in words."""

    number: int
    started_at: datetime
    ready_at: datetime | None
    ready_s: float | None
    ended_at: datetime | None
    exit_code: int | None
    ending: str | None
    failure: str = ""
    """What went wrong, in a sentence; empty where it ended as asked, or lives"""
    version: str | None


def list_starts(s: Session, backend_id: int, limit: int = SHOWN) -> list[StartView]:
    """The last starts, newest first."""
    query = (
        select(BackendStart)
        .where(BackendStart.backend_id == backend_id)
        .order_by(col(BackendStart.number).desc())
        .limit(limit)
    )
    return [
        StartView(
            number=row.number,
            started_at=row.started_at,
            ready_at=row.ready_at,
            ready_s=(row.ready_at - row.started_at).total_seconds() if row.ready_at is not None else None,
            ended_at=row.ended_at,
            exit_code=row.exit_code,
            ending=row.ending,
            failure=str((row.error or {}).get("summary", "")),
            version=row.version,
        )
        for row in s.exec(query)
    ]
