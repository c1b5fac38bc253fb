"""Backends as a run's runner sees them: lanes with room, back-off and limits, over clients that the runs of a worker share."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from db.idstore import Ids
from db.tables import Backend, BackendStart
from inference.backends.server.client import Generation, SglangClient
from inference.runs.servers import ServerFacts, server_facts, why_not_usable

MAX_COOL_S: Final = 30.0
FIRST_COOL_S: Final = 0.25
MAX_CONNECTIONS: Final = 8192


class Client(Protocol):
    """What a runner asks of a server."""

    async def generate(
        self, input_ids: Ids, sampling: dict[str, Any], rid: str, timeout_s: float | None = None
    ) -> Generation:
        """One answer, or GenerateError."""

    async def abort(self, rid: str) -> bool:
        """End a request; unknown ones are no error."""

    async def aclose(self) -> None:
        """Close the connections."""


ClientFactory = Callable[[str, str | None], Client]
"""(base URL, API key) → client"""


def open_client(url: str, api_key: str | None) -> Client:
    """The real client; the number of requests in flight is bounded by the lanes, not by it."""
    return SglangClient(url, api_key, max_connections=MAX_CONNECTIONS)


@dataclass(slots=True)
class Connection:
    """One server's client and how many requests are on it."""

    client: Client
    active: int = 0


class ClientPool:
    """One client per life of a server, shared by the runs of a worker. Used on one event loop only."""

    def __init__(self, factory: ClientFactory = open_client) -> None:
        self._factory = factory
        self._open: dict[int, tuple[tuple[object, ...], Connection]] = {}
        self._retired: list[Connection] = []

    def get(self, backend: Backend, start: BackendStart | None) -> Connection | None:
        """The connection to this backend as it stands; None where it has no address."""
        url = backend.url or (f"http://127.0.0.1:{start.port}" if start is not None and start.port else None)
        if url is None or backend.id is None:
            return None
        key = (backend.start_id, url, backend.api_key)
        known = self._open.get(backend.id)
        if known is not None and known[0] == key:
            return known[1]
        if known is not None:
            self._retired.append(known[1])
        connection = Connection(self._factory(url, backend.api_key))
        self._open[backend.id] = (key, connection)
        return connection

    async def prune(self) -> None:
        """Close the clients of servers that are gone, once nothing is in flight on them."""
        idle = [connection for connection in self._retired if connection.active == 0]
        self._retired = [connection for connection in self._retired if connection.active > 0]
        for connection in idle:
            await connection.client.aclose()

    async def aclose(self) -> None:
        """Close everything."""
        everything = [*self._retired, *(connection for _, connection in self._open.values())]
        self._retired, self._open = [], {}
        for connection in everything:
            await connection.client.aclose()


@dataclass(slots=True)
class Lane:
    """One backend for one run: at most `limit` requests in flight, none before `cool_until` (the runner's clock, seconds)."""

    backend_id: int
    name: str
    limit: int
    connection: Connection
    start_id: int | None
    facts: ServerFacts
    weight_version: str | None
    usable: bool = True
    active: int = 0
    cool_until: float = 0.0
    strikes: int = 0
    refused: str | None = None
    """A sentence, once the server refused our key: nothing more is sent in this life of it"""

    def has_room(self, at: float) -> bool:
        """Whether a request may be sent now."""
        return self.usable and self.refused is None and self.active < self.limit and at >= self.cool_until

    def back_off(self, at: float) -> float:
        """The server is busy or gone: wait, longer each time, with jitter. Returns the seconds."""
        pause: float = min(MAX_COOL_S, FIRST_COOL_S * 2**self.strikes) * random.uniform(0.75, 1.25)  # noqa: S311  (jitter)
        if at >= self.cool_until:  # many requests fail together: they are one strike
            self.strikes = min(self.strikes + 1, 16)
            self.cool_until = at + pause
        return pause

    def answered(self) -> None:
        """A request came back whole."""
        self.strikes = 0


@dataclass(slots=True)
class Lanes:
    """All lanes of a run, kept up with the backends' rows."""

    pool: ClientPool
    limit: int
    vocab_size: int
    """Ids that the run may send lie below it"""
    by_id: dict[int, Lane] = field(default_factory=dict)
    whys: dict[int, str] = field(default_factory=dict)
    """{backend id: why it is not used now}"""

    def update(self, rows: Iterable[tuple[Backend, BackendStart | None]]) -> None:
        """Take over what the rows say now: a new life of a server is a new lane."""
        self.whys.clear()
        for backend, start in rows:
            if backend.id is None:
                continue
            lane = self.by_id.get(backend.id)
            why = why_not_usable(backend, self.vocab_size)
            connection = None if why is not None else self.pool.get(backend, start)
            if connection is None:
                self.whys[backend.id] = why or f"Backend {backend.name} has no address."
                if lane is not None:
                    lane.usable = False
                continue
            if lane is None or lane.connection is not connection:
                facts = server_facts(backend)
                version = (start.weight_version if start is not None else None) or facts.weight_version
                lane = Lane(backend.id, backend.name, self.limit, connection, backend.start_id, facts, version)
                self.by_id[backend.id] = lane
            lane.usable = True
            if lane.refused is not None:
                self.whys[backend.id] = lane.refused

    def pick(self, allowed: tuple[int, ...], at: float) -> Lane | None:
        """The least loaded lane of these with room, the first named where several are."""
        best: Lane | None = None
        for backend_id in allowed:
            lane = self.by_id.get(backend_id)
            if lane is not None and lane.has_room(at) and (best is None or lane.active < best.active):
                best = lane
        return best

    def usable(self, allowed: tuple[int, ...]) -> bool:
        """Whether any of these backends may be used (it may be full or cooling off just now)."""
        return any(
            lane.usable and lane.refused is None for number in allowed if (lane := self.by_id.get(number)) is not None
        )

    def room(self) -> int:
        """How many requests all usable lanes take together."""
        return sum(lane.limit for lane in self.by_id.values() if lane.usable and lane.refused is None)
