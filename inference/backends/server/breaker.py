"""The breaker of one server: after failures in a row it is left out, and one request on trial at a time takes it back.

    closed ──failures in a row──▶ open ──pause over──▶ half_open ──the trial is answered──▶ closed
                                    ▲                      └──the trial fails: a longer pause──┐
                                    └──────────────────────────────────────────────────────────┘

It is pure: no network, no database, its clocks are given. Requests are known by tickets, since many are in flight together
and what was sent before a failure may end long after it: such an end tells nothing of how the server is now.
"""

import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from db.types import now

BreakerState = Literal["closed", "open", "half_open"]

THRESHOLD: Final = 5
"""Failures in a row that open it"""
BUSY_STRIKES: Final = 7
"""Waits in a row with nothing but 429 or 503, each twice as long as the one before (16 s together): that is a failure too"""
FIRST_WAIT_S: Final = 0.25
FIRST_PAUSE_S: Final = 1.0
LONGEST_S: Final = 30.0


def _jitter() -> float:
    return random.uniform(0.75, 1.25)  # noqa: S311  (so that waiting clients do not come back all at once)


class Breaker:
    """Whether one server is sent to.

    Args:
        clock: monotonic seconds.
        wall: the time of day, for what people read.
        jitter: a factor around 1 for each wait.
    """

    __slots__ = (
        "_clock",
        "_failures",
        "_jitter",
        "_not_before",
        "_openings",
        "_since",
        "_strikes",
        "_ticket",
        "_trial",
        "_until",
        "_valid_from",
        "_wall",
        "error",
    )

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        wall: Callable[[], datetime] = now,
        jitter: Callable[[], float] = _jitter,
    ) -> None:
        self._clock, self._wall, self._jitter = clock, wall, jitter
        self._ticket = self._valid_from = 0
        self._failures = self._strikes = self._openings = 0
        self._not_before = 0.0
        self._since: datetime | None = None
        self._until: datetime | None = None
        self._trial: int | None = None
        self.error = ""
        """What the last failure said"""

    @property
    def state(self) -> BreakerState:
        """`half_open` from the end of the pause on, whether or not the trial is under way."""
        if self._since is None:
            return "closed"
        return "open" if self._trial is None and self._clock() < self._not_before else "half_open"

    @property
    def until(self) -> datetime | None:
        """When the pause ends; None where it is closed."""
        return self._until

    def allow(self) -> bool:
        """Whether a request may be sent now: no wait is under way, and no trial. Changes nothing."""
        return self._trial is None and (self._not_before == 0.0 or self._clock() >= self._not_before)

    def sent(self) -> int:
        """A request goes out; its ticket, to be handed back with what became of it. In `half_open` it is the trial."""
        self._ticket += 1
        if self._since is not None and self._trial is None:
            self._trial = self._ticket
        return self._ticket

    def succeeded(self, _ticket: int) -> None:
        """An answer came back whole: the server works, whenever the request was sent."""
        if self._failures or self._strikes or self._since is not None:
            self._failures = self._strikes = self._openings = 0
            self._not_before, self._since, self._until, self._trial = 0.0, None, None, None
            self.error = ""

    def refused(self, ticket: int) -> None:
        """The server refused the request as such (4xx): no word against the server, and as a trial an answer."""
        if ticket == self._trial:
            self.succeeded(ticket)

    def dropped(self, ticket: int) -> None:
        """The request was given up on our side: it tells nothing, and another one may be the trial."""
        if ticket == self._trial:
            self._trial = None

    def failed(self, error: str, ticket: int) -> None:
        """No connection, a 5xx, no answer in time, or one that breaks the protocol."""
        if ticket == self._trial:
            self._open(error)
        elif self._counts(ticket):
            self._failures += 1
            self.error = error
            if self._failures >= THRESHOLD:
                self._open(error)
            else:
                self._wait(self._failures)

    def busy(self, error: str, ticket: int) -> None:
        """The server asks for patience (429, 503). Requests turned away together are one strike."""
        if ticket == self._trial:
            self._open(error)
        elif self._counts(ticket) and self._clock() >= self._not_before:
            self._strikes += 1
            self.error = error
            if self._strikes > BUSY_STRIKES:
                self._open(error)
            else:
                self._wait(self._strikes)

    def to_json(self) -> dict[str, Any] | None:
        """{state, failures, since, until, error} for the row; None where it is closed."""
        if self._since is None or self._until is None:
            return None
        return {
            "state": self.state,
            "failures": max(self._failures, self._strikes) + self._openings - 1,
            "since": self._since.isoformat(),
            "until": self._until.isoformat(),
            "error": self.error,
        }

    def _counts(self, ticket: int) -> bool:
        """Whether a failure says anything: while it is open only the trial does, nor what was sent before it last opened."""
        return self._since is None and ticket > self._valid_from

    def _wait(self, times: int) -> None:
        at = self._clock()
        if at >= self._not_before:
            self._not_before = at + self._pause(FIRST_WAIT_S, times)

    def _open(self, error: str) -> None:
        self._trial = None
        self._openings += 1
        pause = self._pause(FIRST_PAUSE_S, self._openings)
        self._valid_from = self._ticket
        self._not_before = self._clock() + pause
        self._since = self._since or self._wall()
        self._until = self._wall() + timedelta(seconds=pause)
        self.error = error

    def _pause(self, first: float, times: int) -> float:
        return float(min(LONGEST_S, first * 2 ** min(times - 1, 16) * self._jitter()))


def as_of(stored: Mapping[str, Any] | None, at: datetime) -> dict[str, Any] | None:
    """What a row says of a breaker, read at a time: a pause that is over leaves it `half_open`, whoever sends or does not."""
    if not stored or stored.get("state") != "open":
        return dict(stored) if stored else None
    try:
        over = datetime.fromisoformat(str(stored.get("until"))) <= at
    except (TypeError, ValueError):
        over = True
    return {**stored, "state": "half_open"} if over else dict(stored)
