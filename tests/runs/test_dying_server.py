"""A server that goes down under load: nobody waits for it longer than it lives, and nothing that it finished is lost."""

import asyncio

from tests.support.fake_sglang import Answer, FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.workshop import Workshop, until

IN_FLIGHT = 20
FINISHED = 10


def test_a_server_that_dies_with_twenty_requests_in_flight_leaves_none_waiting_and_loses_no_finished_row(
    shop: Workshop, fake_sglang: FakeSglang
) -> None:
    """The requests' own limit is ten minutes, which nobody may have to sit out."""
    sent: list[str] = []

    def script(call: Call) -> Answer:
        sent.append(call.rid)
        if len(sent) <= FINISHED:
            return Answer()
        return Answer(hang=True) if len(sent) < FINISHED + IN_FLIGHT else Answer(die=True)

    fake_sglang.script = script
    backend_id = shop.backend(fake_sglang)
    run_id = shop.launch(shop.prompts(20), backend_id, repeats=2, concurrency=IN_FLIGHT, timeout_s=600.0)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: fake_sglang.dead)
        assert len(sent) == FINISHED + IN_FLIGHT
        shop.set_backend(backend_id, observed_state="backoff", message="Crashed.")
        await until(lambda: all(sample.state != "in_flight" for sample in shop.samples(run_id)))
        states = [sample.state for sample in shop.samples(run_id)]
        assert states.count("done") == FINISHED
        assert states.count("failed") == 0, "a server's death is no fault of the request"
        await until(lambda: shop.run(run_id).reason_kind == "no_backend")
        assert "backoff" in shop.run(run_id).reason
        finished = {sample.id: sample.attempt for sample in shop.samples(run_id) if sample.state == "done"}
        fake_sglang.script = None
        await asyncio.to_thread(fake_sglang.restart)
        shop.set_backend(backend_id, observed_state="ready")
        await working
        after = {sample.id: sample.attempt for sample in shop.samples(run_id)}
        assert finished.items() <= after.items(), "what was finished is untouched"

    asyncio.run(story())
    assert shop.run(run_id).state == "completed"
    assert {(sample.state, sample.attempts) for sample in shop.samples(run_id)} == {("done", 1)}
