"""Clients and breakers of the servers that runs send to: one for each life of a server, shared by the runs of a worker."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from db.idstore import Ids
from db.tables import Backend, BackendStart
from inference.backends.server.breaker import Breaker
from inference.backends.server.client import Generation, SglangClient

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
    """One life of a server: its client, its breaker, and how many requests of all runs are on it."""

    client: Client
    breaker: Breaker
    start_id: int | None
    active: int = 0
    refused: str | None = None
    """A sentence, once the server refused our key: nothing more is sent in this life of it"""
    elsewhere: int = 0
    """Requests of others on it, by its latest figures"""
    kept: dict[str, Any] | None = None
    """What the backend's row says of the breaker"""
    _told_at: object = None
    _peak: int = 0

    def begin(self) -> int:
        """A request goes out; returns the breaker's ticket."""
        self.active += 1
        self._peak = max(self._peak, self.active)
        return self.breaker.sent()

    def told(self, at: object, requests: int) -> None:
        """Take over a reading of the server's figures. What is ours of it may have gone since: the most we had counts."""
        if at != self._told_at:
            self._told_at, self.elsewhere = at, max(0, requests - self._peak)
            self._peak = self.active


class ClientPool:
    """One client and breaker per life of a server, shared by the runs of a worker. Used on one event loop only."""

    def __init__(
        self, factory: ClientFactory = open_client, breakers: Callable[[], Breaker] = lambda: Breaker(time.monotonic)
    ) -> None:
        self._factory = factory
        self._breakers = breakers
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
        client = self._factory(url, backend.api_key)
        connection = Connection(client, self._breakers(), backend.start_id, kept=backend.breaker)
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
