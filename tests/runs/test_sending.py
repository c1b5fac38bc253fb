"""A run over several servers of which some are sick: every sample is done once, and who was left out is told and taken back."""

import asyncio
from datetime import timedelta

import pytest
from sqlmodel import select

from db.tables import Backend, BackendEvent, BackendStart
from db.types import now
from inference.backends.service import backend_view
from tests.support.fake_sglang import Answer, FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.workshop import Workshop, until


@pytest.fixture
def fleet():
    """Makes as many fake servers as a test asks for."""
    servers: list[FakeSglang] = []

    def make(count: int) -> list[FakeSglang]:
        servers.extend(FakeSglang().start() for _ in range(count))
        return servers

    yield make
    for server in servers:
        server.stop()


def told(shop: Workshop, run_id: int, name: str) -> list[str]:
    """What the run's history says of a backend left out or taken back, in order."""
    kinds = {"backend_left_out": "out", "backend_taken_back": "back"}
    return [kinds[e.kind] for e in shop.events(run_id) if e.kind in kinds and e.message.startswith(f"Backend {name} ")]


def all_done_once(shop: Workshop, run_id: int, count: int) -> None:
    samples = shop.samples(run_id)
    assert [sample.state for sample in samples] == ["done"] * count
    done = [attempt for attempt in shop.attempts(run_id) if attempt.error_code is None]
    assert len(done) == len({attempt.sample_id for attempt in done}) == count
    shop.counts(run_id)


def answered_by(shop: Workshop, run_id: int) -> dict[int, int]:
    tally: dict[int, int] = {}
    for attempt in shop.attempts(run_id):
        if attempt.error_code is None:
            tally[attempt.backend_id] = tally.get(attempt.backend_id, 0) + 1
    return tally


def test_a_server_that_is_turned_away_from_is_left_out_and_taken_back(shop: Workshop, fleet) -> None:
    """One server answers nothing but 500 for a while; the others do the work, and it does its share again once it is well."""
    sick, well = fleet(2)
    healed = asyncio.Event()
    sick.script = lambda _call: Answer(delay=0.01) if healed.is_set() else Answer(status=500, message="CUDA error")
    well.script = lambda _call: Answer(delay=0.02)
    first, second = shop.backend(sick, "sick"), shop.backend(well, "well")
    run_id = shop.launch(shop.prompts(400), first, second, concurrency=2, tries=10, guard=None)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: "out" in told(shop, run_id, "sick"))
        with shop.ctx.db.read() as s:
            view = backend_view(s, s.get_one(Backend, first))
        assert view.breaker.state in {"open", "half_open"}
        assert "CUDA error" in view.breaker.error
        assert view.breaker.until is not None
        (out,) = shop.view(run_id).left_out
        assert (out.backend_id, out.name) == (first, "sick")
        assert "CUDA error" in out.why
        healed.set()
        await until(lambda: "back" in told(shop, run_id, "sick"))
        await working

    asyncio.run(story())
    all_done_once(shop, run_id, 400)
    assert told(shop, run_id, "well") == []
    assert shop.view(run_id).left_out == []
    assert set(answered_by(shop, run_id)) == {first, second}
    with shop.ctx.db.read() as s:
        assert s.get_one(Backend, first).breaker is None


def test_each_kind_of_sickness_at_once_and_every_sample_is_done_once(shop: Workshop, fleet) -> None:
    dies, busy, hangs, well = fleet(4)
    turned_away = [0]

    def for_a_while(_call: Call) -> Answer:
        turned_away[0] += 1
        return Answer.busy() if turned_away[0] <= 6 else Answer(delay=0.02)

    dies.script = lambda call: Answer(die=True) if call.number == 5 else Answer(delay=0.02)
    busy.script = for_a_while
    hangs.script = lambda _call: Answer(hang=True)
    well.script = lambda _call: Answer(delay=0.02)
    named = {"dies": dies, "busy": busy, "hangs": hangs, "well": well}
    ids = {name: shop.backend(server, name) for name, server in named.items()}
    run_id = shop.launch(shop.prompts(300), *ids.values(), concurrency=3, timeout_s=0.5, tries=20, guard=None)
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    all_done_once(shop, run_id, 300)
    by = answered_by(shop, run_id)
    assert by.get(ids["hangs"], 0) == 0
    assert by[ids["busy"]] > 0
    assert by[ids["well"]] > by[ids["dies"]]
    assert told(shop, run_id, "dies")[:1] == ["out"]
    assert told(shop, run_id, "hangs")[:1] == ["out"]
    assert told(shop, run_id, "well") == []
    assert len(hangs.seen("/generate")) < 30


def test_a_server_that_died_is_taken_back_when_it_is_there_again(shop: Workshop, fleet) -> None:
    dies, well = fleet(2)
    dies.script = lambda call: Answer(die=True) if call.number == 20 else Answer(delay=0.01)
    well.script = lambda _call: Answer(delay=0.03)
    first, second = shop.backend(dies, "dies"), shop.backend(well, "well")
    run_id = shop.launch(shop.prompts(300), first, second, concurrency=4, guard=None)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: told(shop, run_id, "dies") == ["out"])
        dies.script = lambda _call: Answer(delay=0.01)
        await asyncio.to_thread(dies.restart)
        await until(lambda: told(shop, run_id, "dies") == ["out", "back"])
        await working

    asyncio.run(story())
    all_done_once(shop, run_id, 300)
    assert {sample.attempts for sample in shop.samples(run_id)} == {1}
    assert answered_by(shop, run_id)[first] > 20


def test_requests_that_are_refused_as_such_leave_no_server_out(shop: Workshop, fleet) -> None:
    refuses, well = fleet(2)
    refuses.script = lambda _call: Answer(status=400, shape="c", message="top_p is out of range")
    first, second = shop.backend(refuses, "refuses"), shop.backend(well, "well")
    run_id = shop.launch(shop.prompts(60), first, second, concurrency=2, guard=None)
    shop.work(run_id)
    states = [sample.state for sample in shop.samples(run_id)]
    assert states.count("failed") == len(refuses.seen("/generate")) > 10
    assert {sample.error for sample in shop.samples(run_id) if sample.state == "failed"} == {"top_p is out of range"}
    assert told(shop, run_id, "refuses") == []


def test_the_only_server_being_left_out_is_said_as_the_runs_reason_until_it_answers(shop: Workshop, fleet) -> None:
    (only,) = fleet(1)
    healed = asyncio.Event()
    only.script = lambda _call: None if healed.is_set() else Answer(status=500, message="CUDA error: an illegal access")
    run_id = shop.launch(shop.prompts(12), shop.backend(only, "only"), concurrency=2, tries=10, guard=None)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: shop.run(run_id).reason_kind == "no_backend")
        assert "CUDA error: an illegal access" in shop.run(run_id).reason
        healed.set()
        await working

    asyncio.run(story())
    assert shop.run(run_id).state == "completed"
    all_done_once(shop, run_id, 12)


def test_requests_on_a_server_that_vanished_without_a_word_end_when_its_end_is_known(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    """The machine loses power: no reset comes, and the connections stand open to nobody."""
    backend_id = shop.backend(fake_sglang, "ours", kind="managed")
    run_id = shop.launch(shop.prompts(30), backend_id, concurrency=20)
    fake_sglang.script = lambda call: Answer(hang=True) if call.number > 10 else None

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: sum(sample.state == "done" for sample in shop.samples(run_id)) == 10)
        await fake_sglang.until_live(20)
        with shop.ctx.db.write() as s:
            backend = s.get_one(Backend, backend_id)
            s.get_one(BackendStart, backend.start_id).ended_at = now()
            backend.observed_state = "backoff"
        await until(lambda: all(sample.state in {"done", "pending"} for sample in shop.samples(run_id)))
        assert sum(sample.state == "done" for sample in shop.samples(run_id)) == 10
        fake_sglang.script = None
        with shop.ctx.db.write() as s:
            start = BackendStart(backend_id=backend_id, number=2, weight_version=fake_sglang.facts.weight_version)
            s.add(start)
            s.flush()
            backend = s.get_one(Backend, backend_id)
            backend.start_id, backend.observed_state = start.id, "ready"
        await working

    asyncio.run(story())
    assert shop.run(run_id).state == "completed"
    all_done_once(shop, run_id, 30)
    assert {sample.attempts for sample in shop.samples(run_id)} == {1}


def test_a_server_whose_weights_changed_is_not_used_until_it_was_probed_again(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    backend_id = shop.backend(fake_sglang, "far")
    shop.set_backend(backend_id, start_id=None)
    fake_sglang.script = lambda call: Answer(weight_version="step-2") if call.number > 5 else Answer(delay=0.01)
    run_id = shop.launch(shop.prompts(40), backend_id, concurrency=2, guard=None)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: not probe_of(shop, backend_id))
        with shop.ctx.db.read() as s:
            events = s.exec(select(BackendEvent.message).where(BackendEvent.kind == "server_changed")).all()
        assert len(events) == 1
        assert "'step-2'" in events[0]
        good = {"ok": True, "refusals": [], "checks": [], "weight_versions": ["step-2"]}
        shop.set_backend(backend_id, probe=good)
        await working

    asyncio.run(story())
    all_done_once(shop, run_id, 40)
    failed = [attempt.error_code for attempt in shop.attempts(run_id) if attempt.error_code]
    assert failed == ["weight_version_mismatch"] * len(failed)
    assert 1 <= len(failed) <= 2


def probe_of(shop: Workshop, backend_id: int):
    with shop.ctx.db.read() as s:
        return s.get_one(Backend, backend_id).probe


def test_a_run_says_which_backends_it_goes_on_without_and_why(shop: Workshop, fleet) -> None:
    servers = fleet(3)
    open_until = (now() + timedelta(minutes=5)).isoformat()
    breaker = {"state": "open", "failures": 5, "since": open_until, "until": open_until, "error": "It went away."}
    first = shop.backend(servers[0], "loading", observed_state="loading")
    second = shop.backend(servers[1], "tripped", breaker=breaker)
    run_id = shop.launch(shop.prompts(4), first, second, shop.backend(servers[2], "well"))
    out = {item.name: item for item in shop.view(run_id).left_out}
    assert out["loading"].why == "Backend loading is loading."
    assert out["tripped"].why.startswith(
        "It failed 5 times in a row, last: It went away. Nothing is sent to tripped until"
    )
    assert out["tripped"].until is not None
    assert "well" not in out
    shop.set_backend(second, breaker={**breaker, "until": (now() - timedelta(minutes=5)).isoformat()})
    (item,) = [item for item in shop.view(run_id).left_out if item.name == "tripped"]
    assert "on trial" in item.why
    assert item.until is None
    shop.set_backend(first, observed_state="ready")
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    assert shop.view(run_id).left_out == []
    with shop.ctx.db.read() as s:
        assert s.get_one(Backend, second).breaker is None, "a worker that knows of no failure says so"
