"""What every keeper needs, in one hand."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from db.tables import Backend
from inference.backends.server.client import SglangClient
from inference.backends.supervision.figures import FigureBook
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.records import Records
from inference.settings import Settings

Prober = Callable[[SglangClient, Backend], Awaitable[dict[str, Any]]]
"""Makes the fidelity probe's report, as JSON, of a ready server."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The same for all keepers of a supervisor.

    `settings`: where logs lie, which interpreter. `book`: where live figures go. `prober`: makes the fidelity probe. `wake`:
    called when something happened that deserves a turn at once.
    """

    settings: Settings
    records: Records
    policy: Policy
    book: FigureBook
    prober: Prober
    wake: Callable[[], None]
