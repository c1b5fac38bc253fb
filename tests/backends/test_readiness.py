"""What proves that a server is ready, and that it is ours."""

import pytest

from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import Expected, ask_ready, prove, same_model
from tests.support.fake_sglang import Answer
from tests.support.fake_sglang.server import FakeSglang

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("launched", "told", "same"),
    [
        ("/models/tiny", "/models/tiny", True),
        ("/models/tiny", "/models/./tiny/", True),
        ("/models/tiny", "/models/other", False),
        ("/models/tiny", "tiny", False),
        ("org/tiny", "org/tiny", True),
        ("org/tiny", "/cache/models--org--tiny/snapshots/1", True),
        ("org/tiny", "org/other", False),
    ],
)
def test_a_model_is_known_however_its_path_is_written(launched: str, told: str, same: bool) -> None:
    assert same_model(launched, told) is same


async def test_our_own_server_proves_its_version_its_model_and_a_generation(fake_sglang: FakeSglang) -> None:
    facts = fake_sglang.facts
    async with SglangClient(fake_sglang.url) as client:
        good = Expected(facts.weight_version, facts.model_path)
        proof = await prove(client, good, health_s=10, generate_s=10)
        assert proof.ready
        assert [finding.source for finding in proof.findings] == ["health", "generation"]
        assert proof.model == facts.model_path
        stranger = await prove(client, Expected("other", facts.model_path), health_s=10, generate_s=10)
        assert (stranger.ready, stranger.stranger) == (False, True)
        wrong = await prove(client, Expected(facts.weight_version, "/models/other"), health_s=10, generate_s=10)
        assert (wrong.ready, wrong.stranger) == (False, False)
        assert "/models/other" in wrong.findings[-1].text


async def test_a_server_that_answers_every_check_and_generates_nothing_is_not_ready(fake_sglang: FakeSglang) -> None:
    facts = fake_sglang.facts
    async with SglangClient(fake_sglang.url) as client:
        expected = Expected(facts.weight_version, facts.model_path)
        for bad in (
            Answer(status=500),
            Answer(output_ids=[], exact=True, finish_reason={"type": "abort"}),
            Answer(drop=True),
        ):
            fake_sglang.script = lambda _call, bad=bad: bad
            for asked in (expected, None):  # ours, and somebody else's
                proof = await prove(client, asked, health_s=10, generate_s=10)
                assert (proof.ready, proof.answers) == (False, True)
                assert proof.findings[-1].source == "generation"
                assert not proof.findings[-1].ok
        fake_sglang.script = lambda _call: Answer(weight_version="another-start")
        proof = await prove(client, expected, health_s=10, generate_s=10)
        assert (proof.ready, proof.stranger) == (False, True), "its model page was ours, its answer is not"
        fake_sglang.script = None
        assert (await prove(client, expected, health_s=10, generate_s=10)).ready
    assert all(request.body["input_ids"] == [0] for request in fake_sglang.seen("/generate"))


async def test_a_part_of_a_server_is_asked_for_its_health_alone(fake_sglang: FakeSglang) -> None:
    async with SglangClient(fake_sglang.url) as client:
        proof = await prove(client, Expected("any", "any", serves=False), health_s=10, generate_s=10)
    assert proof.ready
    assert fake_sglang.seen("/generate") == []
    assert fake_sglang.seen("/model_info") == []


async def test_nobody_there_is_told_as_that() -> None:
    async with SglangClient("http://127.0.0.1:9") as client:
        health = await ask_ready(client, health_s=5)
        proof = await prove(client, None, health_s=5, generate_s=5)
    assert health.kind == "refused"
    assert not proof.answers
