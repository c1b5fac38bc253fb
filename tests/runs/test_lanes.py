"""How a run spreads over its backends: to the least loaded for what it can do, never to a sick one. The clock is set by hand."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from db.states import BACKEND_MOVES
from db.tables import Backend, BackendStart
from db.types import now
from inference.backends.server.answers import GenerateError
from inference.backends.server.breaker import THRESHOLD, Breaker
from inference.backends.server.client import Generation
from inference.runs.lanes import Lane, Lanes
from inference.runs.outcomes import Ending, Work
from inference.runs.pool import ClientPool
from inference.runs.requests import Ask, judge, send
from inference.runs.servers import why_not_usable

VOCAB = 1000
GOOD_PROBE = {"ok": True, "refusals": [], "checks": []}


class Nobody:
    """A client that nothing is sent with: only who is picked matters here."""

    async def generate(self, input_ids, sampling, rid, timeout_s=None) -> Generation:  # noqa: ARG002  (the client's signature)
        raise AssertionError("nothing is sent")

    async def abort(self, rid: str) -> bool:  # noqa: ARG002  (the client's signature)
        raise AssertionError("nothing is sent")

    async def aclose(self) -> None:
        return None


class Bench:
    """Lanes over made-up rows, and simulated servers that answer after a time of their own."""

    def __init__(self, *rows: Backend, limit: int = 8) -> None:
        self.at = 0.0
        self.rows = list(rows)
        wall = lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at)  # noqa: E731
        self.pool = ClientPool(
            lambda _url, _key: Nobody(), lambda: Breaker(lambda: self.at, wall=wall, jitter=lambda: 1.0)
        )
        self.lanes = Lanes(self.pool, limit, VOCAB)
        self.look()

    def look(self) -> None:
        self.lanes.update((row, None) for row in self.rows)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(row.id or 0 for row in self.rows)

    def send(self) -> tuple[Lane, int] | None:
        lane = self.lanes.pick(self.ids)
        if lane is None:
            return None
        lane.active += 1
        return lane, lane.connection.begin()

    def end(self, lane: Lane, ticket: int, error: GenerateError | None = None) -> None:
        lane.active -= 1
        lane.connection.active -= 1
        if error is None:
            lane.connection.breaker.succeeded(ticket)
        else:
            judge(lane, error, ticket)

    def names(self, count: int) -> list[str]:
        """Who gets so many requests, sent one after the other while none ends."""
        return [sent[0].name for _ in range(count) if (sent := self.send()) is not None]

    def work_off(self, samples: int, answer) -> dict[str, int]:
        """Let servers work a heap of samples off; `answer(name, at)` is (seconds, error or None). Returns who finished how many."""
        left, done, events, tie = samples, dict.fromkeys((row.name for row in self.rows), 0), [], itertools.count()
        while left or events:
            while left and (sent := self.send()) is not None:
                left -= 1
                seconds, error = answer(sent[0].name, self.at)
                heapq.heappush(events, (self.at + seconds, next(tie), sent, error))
            if not events:
                self.at += 0.05
                continue
            self.at, _, (lane, ticket), error = heapq.heappop(events)
            self.end(lane, ticket, error)
            if error is None:
                done[lane.name] += 1
            else:
                left += 1
        return done


def server(number: int, **columns) -> Backend:
    info = {"model_path": "m", "vocab_size": VOCAB, **columns.pop("info", {})}
    return Backend(
        id=number,
        name=f"s{number}",
        kind=columns.pop("kind", "attached"),
        url=f"http://s{number}",
        desired_state="running",
        observed_state="ready",
        probe=GOOD_PROBE,
        server_info=info,
        **columns,
    )


def figures(running: int, queued: int, at: datetime | None = None) -> dict[str, object]:
    return {"at": (at or now()).isoformat(), "source": "loads", "running": running, "queued": queued}


LOST = GenerateError("connection", None, "It went away.")


def test_requests_go_round_among_equals() -> None:
    bench = Bench(server(1), server(2), server(3))
    assert sorted(bench.names(6)) == ["s1", "s1", "s2", "s2", "s3", "s3"]


def test_a_server_that_runs_more_at_once_gets_more() -> None:
    bench = Bench(server(1, info={"max_running_requests": 2}), server(2, info={"max_running_requests": 6}), limit=64)
    names = bench.names(16)
    assert (names.count("s1"), names.count("s2")) == (4, 12)


def test_no_lane_takes_more_than_its_limit() -> None:
    bench = Bench(server(1), server(2), limit=3)
    assert len(bench.names(50)) == 6


def test_requests_of_others_count_as_load() -> None:
    bench = Bench(server(1, figures=figures(6, 0)), server(2))
    assert bench.names(6) == ["s2"] * 6


def test_our_own_requests_in_the_figures_are_not_counted_twice() -> None:
    bench = Bench(server(1), server(2))
    assert bench.names(8).count("s1") == 4
    bench.rows[0].figures = figures(4, 0)
    bench.look()
    assert bench.lanes.by_id[1].connection.elsewhere == 0
    assert bench.names(4).count("s1") == 2


def test_a_server_with_a_long_queue_gets_less() -> None:
    bench = Bench(server(1, figures=figures(2, 40)), server(2), limit=64)
    assert bench.names(20) == ["s2"] * 20


def test_old_figures_say_nothing() -> None:
    bench = Bench(server(1, figures=figures(60, 40, now() - timedelta(minutes=5))), server(2))
    assert bench.names(8).count("s1") == 4


@pytest.mark.parametrize("kind", ["connection", "timeout", "server", "malformed"])
def test_failures_in_a_row_leave_a_server_out(kind) -> None:
    bench = Bench(server(1))
    for _ in range(THRESHOLD):
        bench.at += 5
        bench.end(*bench.send(), GenerateError(kind, None, "boom"))
    assert bench.send() is None
    bench.look()
    assert "It failed 5 times in a row, last: boom." in bench.lanes.whys[1]
    assert bench.lanes.usable((1,))
    assert bench.lanes.left_out((1,))


@pytest.mark.parametrize(
    "error", [GenerateError("rejected", 400, "no"), GenerateError("server", None, "NaN", code="nan")]
)
def test_a_fault_of_the_request_never_counts_against_the_server(error: GenerateError) -> None:
    bench = Bench(server(1))
    for _ in range(50):
        bench.end(*bench.send(), error)
    assert bench.names(1) == ["s1"]


def test_a_refused_key_leaves_it_out_for_good_with_its_own_sentence() -> None:
    bench = Bench(server(1), server(2))
    bench.end(*bench.send(), GenerateError("unauthorized", 401, "The server refused the API key (401: Unauthorized)."))
    bench.at += 1000
    assert set(bench.names(5)) == {"s2"}
    bench.look()
    assert bench.lanes.whys[1].startswith("Backend s1 refuses our key")


def test_the_recovered_gets_one_trial_first_and_then_its_share() -> None:
    bench = Bench(server(1), server(2))
    for _ in range(2 * THRESHOLD):
        lane, ticket = bench.send()
        bench.end(lane, ticket, LOST if lane.name == "s1" else None)
        bench.at += 0.5
        if lane.connection.breaker.state == "open":
            break
    assert bench.names(3) == ["s2"] * 3
    bench.at += 1.0
    trial = bench.send()
    assert trial[0].name == "s1"
    assert bench.names(2) == ["s2"] * 2
    bench.end(*trial)
    assert bench.names(5) == ["s1"] * 5


def test_what_was_left_out_and_taken_back_is_told_once_each() -> None:
    bench = Bench(server(1), server(2))
    assert bench.lanes.news == []
    for _ in range(THRESHOLD):
        bench.at += 1
        bench.lanes.by_id[1].connection.breaker.failed("boom", bench.lanes.by_id[1].connection.breaker.sent())
    for _ in range(3):
        bench.look()
    bench.at += 1.5
    lane, ticket = bench.send()
    bench.look()
    bench.end(lane, ticket)
    for _ in range(3):
        bench.look()
    assert [(kind, text.split(".")[0]) for kind, text, _ in bench.lanes.news] == [
        ("backend_left_out", "Backend s1 is left out"),
        ("backend_taken_back", "Backend s1 is used again"),
    ]


def test_a_backend_that_went_away_and_came_back_is_told_too() -> None:
    bench = Bench(server(1), server(2))
    bench.rows[0].observed_state = "unresponsive"
    bench.look()
    bench.rows[0].observed_state = "ready"
    bench.look()
    assert [text for _, text, _ in bench.lanes.news] == [
        "Backend s1 is left out. Backend s1 is unresponsive.",
        "Backend s1 is used again.",
    ]


def test_runs_of_one_worker_share_what_they_know_of_a_server() -> None:
    bench = Bench(server(1))
    for _ in range(THRESHOLD):
        bench.at += 5
        bench.end(*bench.send(), LOST)
    bench.at += 0.5
    other = Lanes(bench.pool, 8, VOCAB)
    other.update((row, None) for row in bench.rows)
    assert other.pick((1,)) is None
    assert "Nothing is sent to s1 until" in other.whys[1]


def test_a_new_start_of_a_server_begins_with_a_closed_breaker() -> None:
    row = server(1, kind="managed", start_id=7)
    bench = Bench(row)
    for _ in range(THRESHOLD):
        bench.at += 5
        bench.end(*bench.send(), LOST)
    ((backend_id, start_id, stands),) = bench.lanes.breakers()
    assert (backend_id, start_id, stands["state"]) == (1, 7, "open")
    bench.lanes.kept(1, stands)
    assert bench.lanes.breakers() == []
    row.start_id, row.breaker = 8, stands
    bench.look()
    assert bench.names(1) == ["s1"]
    assert bench.lanes.breakers() == [(1, 8, None)]


def test_a_start_that_ended_ends_what_is_in_flight_on_it() -> None:
    row, start = server(1, kind="managed", start_id=7), BackendStart(id=7, backend_id=1, number=1)
    bench = Bench(row)
    bench.lanes.update([(row, start)])
    lane, _ = bench.send()
    assert not lane.ended
    start.ended_at = now()
    bench.lanes.update([(row, start)])
    assert lane.ended
    assert bench.send() is None


def test_what_a_stop_cuts_off_costs_no_attempt_and_what_a_server_aborts_by_itself_does() -> None:
    row = server(1)
    bench = Bench(row)
    aborted = GenerateError("aborted", None, "The server aborted the request.")

    class Aborting(Nobody):
        async def generate(self, input_ids, sampling, rid, timeout_s=None) -> Generation:  # noqa: ARG002  (as above)
            raise aborted

    work = Work(1, 1, 1, 0, 0, "a", 1, 0, np.arange(3, dtype=np.uint32), None)

    def ask(state: str):
        lane, ticket = bench.send()
        lane.connection.client = Aborting()
        row.observed_state = state  # with the request in flight
        bench.look()
        return asyncio.run(send(work, lane, Ask({}, {}, "rid"), SimpleNamespace(timeout_s=1.0), ticket))

    assert ask("ready").ending is Ending.TRIED
    assert ask("draining") is aborted
    assert bench.send() is None


@pytest.mark.parametrize("state", sorted(BACKEND_MOVES.keys() - {"ready"}))
def test_only_a_ready_server_is_sent_to(state: str) -> None:
    """One that drains would otherwise never be done, and one that does not answer would keep what it is sent."""
    bench = Bench(server(1), server(2))
    bench.rows[0].observed_state = state
    bench.look()
    assert bench.names(4) == ["s2"] * 4
    assert state.replace("_", " ") in bench.lanes.whys[1]
    bench.rows[0].observed_state = "ready"
    bench.look()
    assert bench.names(4) == ["s1"] * 4


@pytest.mark.parametrize(("state", "told"), [("stopped", "it is not started"), ("draining", "it was asked to stop")])
def test_why_a_server_that_nobody_wants_is_not_used_says_how_to_have_it(state: str, told: str) -> None:
    backend = server(1)
    backend.desired_state, backend.observed_state = "stopped", state
    why = why_not_usable(backend, VOCAB)
    assert why is not None
    assert told in why


def test_a_follower_of_a_server_of_several_machines_is_never_used() -> None:
    why = why_not_usable(server(1, kind="managed", launch={"model_path": "m", "nnodes": 2, "node_rank": 1}), VOCAB)
    assert why == (
        "Backend s1 is node 1 of a server of several machines: it serves no requests, node 0 does. "
        "Name the backend of node 0 instead."
    )
    assert why_not_usable(server(1, kind="managed", launch={"nnodes": 2, "node_rank": 0}), VOCAB) is None


def test_a_slow_server_works_off_its_share_and_no_more() -> None:
    bench = Bench(server(1), server(2), limit=8)
    done = bench.work_off(1000, lambda name, _at: (1.0 if name == "s1" else 0.1, None))
    assert done["s1"] + done["s2"] == 1000
    assert done["s1"] <= 8 * (bench.at + 1)
    assert bench.at == pytest.approx(1000 / (8 * 10 + 8), rel=0.2)


def test_a_hung_server_holds_no_more_than_its_lane_and_the_rest_is_done() -> None:
    bench = Bench(server(1), server(2), limit=4)
    timeout = GenerateError("timeout", None, "No answer within 60 s.")
    done = bench.work_off(500, lambda name, _at: (60.0, timeout) if name == "s1" else (0.1, None))
    assert done == {"s1": 0, "s2": 500}
    assert bench.at <= 60.0 * 3


def test_a_server_that_fails_at_once_does_not_draw_the_work_to_itself() -> None:
    bench = Bench(server(1), server(2), limit=8)
    asked = {"s1": 0, "s2": 0}

    def answer(name: str, _at: float):
        asked[name] += 1
        return (0.001, LOST) if name == "s1" else (0.2, None)

    done = bench.work_off(2000, answer)
    assert done == {"s1": 0, "s2": 2000}
    assert asked["s1"] < 50


def test_a_server_that_is_sick_for_a_while_is_taken_back_and_does_its_share_again() -> None:
    bench = Bench(server(1), server(2), limit=8)
    busy = GenerateError("busy", 503, "The request queue is full.")
    done = bench.work_off(5000, lambda name, at: (0.01, busy) if name == "s1" and at < 20 else (0.2, None))
    assert sum(done.values()) == 5000
    assert done["s1"] > 1000
    assert np.isclose(done["s1"] + done["s2"], 5000)
