"""How fast a run goes, over a sliding window, and the row that says so."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import func, update
from sqlmodel import col, select

from db.tables import Run, RunCategory
from db.types import now
from inference.context import Context

WINDOW_S: Final = 30.0
EVERY_S: Final = 1.0


class Meter:
    """Counts what was written, second by second, and tells the rates of the last half minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._seen: deque[tuple[float, int, int]] = deque()

    def add(self, samples: int, tokens: int) -> None:
        """So many samples with so many output tokens were written just now."""
        if samples:
            self._seen.append((self._clock(), samples, tokens))

    def rates(self) -> tuple[float, float]:
        """(samples, output tokens) a second; (0, 0) when nothing was written within the window."""
        at = self._clock()
        while self._seen and self._seen[0][0] < at - WINDOW_S:
            self._seen.popleft()
        if not self._seen:
            return 0.0, 0.0
        span = max(1.0, min(WINDOW_S, at - self._began))
        return sum(item[1] for item in self._seen) / span, sum(item[2] for item in self._seen) / span


def write_progress(
    ctx: Context, run_id: int, rates: tuple[float, float], in_flight: int, last: dict[str, Any]
) -> dict[str, Any]:
    """Write the run's progress if it differs from `last`; returns what stands there now.

    `eta_s` counts what is pending or in flight at the present rate; None where nothing moves.
    """
    samples_per_s, tokens_per_s = rates
    with ctx.db.read() as s:
        left = s.exec(
            select(func.coalesce(func.sum(RunCategory.pending + RunCategory.in_flight), 0)).where(
                col(RunCategory.run_id) == run_id
            )
        ).one()
    value: dict[str, Any] = {
        "samples_per_s": round(samples_per_s, 2),
        "tokens_per_s": round(tokens_per_s, 1),
        "eta_s": round(int(left) / samples_per_s) if samples_per_s > 0 else None,
        "in_flight": in_flight,
    }
    if value == {key: last.get(key) for key in value}:
        return last
    value["at"] = now().isoformat()
    with ctx.db.write() as s:
        s.execute(update(Run).where(col(Run.id) == run_id).values(progress=value))
    return value
