"""A run through SGLang's own router: it drops what it does not know, and one of the servers behind it dies midway."""

import asyncio
from pathlib import Path

import pytest

from db.tables import Backend
from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import prove
from inference.backends.supervision.probing import prober_of
from tests.support.fake_sglang import Answer, FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.router import routing
from tests.support.workshop import MODEL, Workshop

COUNT = 50


@pytest.fixture
def pair():
    servers = [FakeSglang().start() for _ in range(2)]
    yield servers
    for server in servers:
        server.stop()


async def attach(shop: Workshop, url: str, fake: FakeSglang) -> int:
    """A backend at the router, as the supervisor would have made it: proven, and probed."""
    backend_id = shop.backend(fake, "router", url=url, start_id=None, probe=None)
    async with SglangClient(url, max_connections=8) as client:
        proof = await prove(client, None, health_s=10, generate_s=10)
        assert proof.ready
        shop.set_backend(backend_id, start_id=None, server_info={**proof.facts, "tokenizer_path": MODEL})
        with shop.ctx.db.read() as s:
            row = s.get_one(Backend, backend_id)
        shop.set_backend(backend_id, probe=await prober_of(shop.ctx)(client, row))
    return backend_id


def test_a_run_through_a_router_is_whole_though_a_server_behind_it_dies_midway(
    shop: Workshop, pair: list[FakeSglang], tmp_path: Path
) -> None:
    stays, dies = pair
    ours: dict[str, list[int]] = {}

    def answer(call: Call) -> Answer:
        ours[call.rid] = call.prompt_ids
        return Answer(delay=0.02)

    with routing(pair, tmp_path / "router.log") as url:
        backend_id = asyncio.run(attach(shop, url, stays))
        before = {server: server.model.count for server in pair}
        stays.script = answer
        dies.script = lambda call: Answer(die=True) if call.number == before[dies] + 12 else answer(call)
        run_id = shop.launch(shop.prompts(COUNT), backend_id, concurrency=4, sampling={"max_new_tokens": 64})
        shop.work(run_id)
    assert dies.dead
    assert shop.run(run_id).state == "completed"
    samples = shop.samples(run_id)
    assert [sample.state for sample in samples] == ["done"] * COUNT
    for sample in samples:
        ids = shop.ctx.ids.get(run_id, (sample.id, sample.attempt))
        assert ids is not None
        assert ids.output_ids.tolist()[-1] == 151645
    sent = {tuple(prompt) for prompt in ours.values()}
    kept = {tuple(shop.ctx.ids.get(run_id, (sample.id, sample.attempt)).prompt_ids.tolist()) for sample in samples}
    assert kept <= sent
    seen = [request.body["sampling_params"] for request in stays.seen("/generate") if request.status == 200][-5:]
    assert all("sampling_seed" in params and params["max_new_tokens"] == 64 for params in seen)
    shop.counts(run_id)
