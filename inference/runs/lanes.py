"""Backends as a run's runner sees them: lanes with room and limits, of which the least loaded is taken and never a sick one."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from db.tables import Backend, BackendStart
from inference.runs.pool import ClientPool, Connection
from inference.runs.servers import ServerFacts, server_facts, told_load, why_left_out, why_not_usable


@dataclass(slots=True)
class Lane:
    """One backend for one run: at most `limit` requests in flight, none while its breaker says no."""

    backend_id: int
    name: str
    limit: int
    connection: Connection
    start_id: int | None
    facts: ServerFacts
    weight_versions: frozenset[str]
    """Those that its answers may carry; empty: not known, not compared"""
    ours: bool = False
    """Whether its process is ours: then its weights are those of its start"""
    echoes: bool = True
    """Whether it sends the prompt's ids back; a router in front of it may not ask it to"""
    usable: bool = True
    active: int = 0
    capacity: int = 1
    """How many requests it works on at once, as far as is known"""
    ended: bool = False
    """Its process is gone: nothing that is in flight on it will be answered"""
    changed: str | None = None
    """A weight version that an answer carried and nobody knew: it has to be probed again"""

    def has_room(self) -> bool:
        """Whether a request may be sent now."""
        breaker = self.connection.breaker
        return self.serves and self.active < self.limit and breaker.allow()

    @property
    def serves(self) -> bool:
        """Whether it may be used; it may be full, or left out for a while, just now."""
        return self.usable and self.connection.refused is None and self.changed is None

    @property
    def load(self) -> float:
        """Requests on it for each that it can work on at once; above 1 they wait there."""
        return (self.connection.active + self.connection.elsewhere) / self.capacity

    def why_out(self) -> str | None:
        """None where it is used, else a sentence: the key was refused, or the breaker left it out."""
        if self.connection.refused is not None:
            return self.connection.refused
        if self.changed is not None:
            return (
                f"Backend {self.name} answers from other weights ({self.changed}) than were probed: it is probed again."
            )
        breaker = self.connection.breaker
        return why_left_out(self.name, breaker.to_json())


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
    news: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """(kind, sentence, detail) of what was left out or taken back, for the run's history; whoever writes it takes it out"""
    _out: dict[int, bool] = field(default_factory=dict)

    def update(self, rows: Iterable[tuple[Backend, BackendStart | None]]) -> None:
        """Take over what the rows say now: a new life of a server is a new lane."""
        self.whys.clear()
        for backend, start in rows:
            if backend.id is None:
                continue
            self._update(backend.id, backend, start)
            self._tell(backend.id, backend.name, self.whys.get(backend.id))

    def _update(self, backend_id: int, backend: Backend, start: BackendStart | None) -> None:
        lane = self.by_id.get(backend_id)
        if lane is not None and _is_over(lane, backend, start):
            lane.ended, lane.usable = True, False
        why = why_not_usable(backend, self.vocab_size)
        if why is None and lane is not None and lane.ended and lane.start_id == backend.start_id:
            why = f"The process of backend {backend.name} ended."
        connection = None if why is not None else self.pool.get(backend, start)
        if connection is None:
            self.whys[backend_id] = why or f"Backend {backend.name} has no address."
            if lane is not None:
                lane.usable = False
            return
        facts = server_facts(backend)
        if lane is None or lane.connection is not connection:
            lane = Lane(backend_id, backend.name, self.limit, connection, backend.start_id, facts, frozenset())
            self.by_id[backend_id] = lane
        lane.usable, lane.facts, lane.name, lane.echoes = True, facts, backend.name, facts.echoes
        lane.ours = backend.kind == "managed"
        marker = start.weight_version if start is not None else None
        lane.weight_versions = frozenset({marker}) if marker is not None else facts.weight_versions
        if lane.changed in lane.weight_versions:  # it was probed meanwhile
            lane.changed = None
        lane.capacity = min(self.limit, facts.max_running or self.limit)
        told = told_load(backend)
        if told is not None:
            connection.told(told.at, told.requests)
            if told.queued and told.running:  # it works on no more at once, whatever its limits say
                lane.capacity = max(1, min(lane.capacity, told.running))
        out = lane.why_out()
        if out is not None:
            self.whys[backend_id] = out

    def _tell(self, backend_id: int, name: str, why: str | None) -> None:
        before, self._out[backend_id] = self._out.get(backend_id), why is not None
        detail: dict[str, Any] = {"backend_id": backend_id}
        if why is not None and before is False:
            self.news.append(("backend_left_out", f"Backend {name} is left out. {why}", detail))
        elif why is None and before is True:
            self.news.append(("backend_taken_back", f"Backend {name} is used again.", detail))

    def breakers(self) -> list[tuple[int, int | None, dict[str, Any] | None]]:
        """(backend id, start id, breaker) of those whose row does not say yet how their breaker stands."""
        found = []
        for lane in self.by_id.values():
            stands = lane.connection.breaker.to_json()
            if lane.usable and stands != lane.connection.kept:
                found.append((lane.backend_id, lane.start_id, stands))
        return found

    def kept(self, backend_id: int, stands: dict[str, Any] | None) -> None:
        """The row says it now."""
        self.by_id[backend_id].connection.kept = stands

    def pick(self, allowed: tuple[int, ...]) -> Lane | None:
        """The least loaded lane of these with room, the first named where several are; one that is due for its trial first."""
        best: Lane | None = None
        for backend_id in allowed:
            lane = self.by_id.get(backend_id)
            if lane is None or not lane.has_room():
                continue
            if lane.connection.breaker.state != "closed":
                return lane
            if best is None or lane.load < best.load:
                best = lane
        return best

    def usable(self, allowed: tuple[int, ...]) -> bool:
        """Whether any of these backends may be used (it may be full or left out for a while just now)."""
        return any(lane.serves for number in allowed if (lane := self.by_id.get(number)) is not None)

    def left_out(self, allowed: tuple[int, ...]) -> bool:
        """Whether every one of these that may be used is left out by its breaker."""
        lanes = [lane for number in allowed if (lane := self.by_id.get(number)) is not None and lane.serves]
        return bool(lanes) and all(lane.connection.breaker.state != "closed" for lane in lanes)

    def room(self) -> int:
        """How many requests all usable lanes take together; one that is left out takes its trial."""
        return sum(
            lane.limit if lane.connection.breaker.state == "closed" else 1
            for lane in self.by_id.values()
            if lane.serves
        )


def _is_over(lane: Lane, backend: Backend, start: BackendStart | None) -> bool:
    """Whether the process behind the lane is known to be gone; of an attached server nobody knows."""
    if backend.kind != "managed":
        return False
    if backend.start_id != lane.start_id:
        return True
    return backend.observed_state in {"stopped", "failed", "backoff"} or (
        start is not None and start.ended_at is not None
    )
