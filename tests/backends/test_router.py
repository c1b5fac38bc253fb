"""SGLang's router as an attached backend: what it cannot tell is a note, and what is behind it is looked at all the same."""

from pathlib import Path

import pytest

from inference.backends.probe.probe import probe
from inference.backends.server.client import GenerateError, SglangClient
from inference.backends.server.loads import read_figures
from inference.backends.server.readiness import prove
from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import bind, get_format
from tests.backends.conftest import Lab
from tests.support.fake_sglang import Facts, FakeSglang, FolderVocabulary
from tests.support.router import routing
from tests.support.tiny_tokenizers import make_tokenizer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def pair(tmp_path: Path, start_fake_sglang) -> list[FakeSglang]:
    """Two servers of one model."""
    folder = make_tokenizer(tmp_path / "tiny")
    vocabulary = FolderVocabulary(folder)
    return [start_fake_sglang(facts=Facts(model_path=str(folder)), vocabulary=vocabulary) for _ in range(2)]


async def probed(url: str, folder: Path):
    tokenizer = TokenizerCache([folder.parent], allow_remote_code=False).get(str(folder))
    async with SglangClient(url, max_connections=4) as client:
        return await probe(client, tokenizer, bind(get_format("qwen3"), tokenizer), timeout_s=20)


async def test_a_router_is_ready_by_a_real_generation_and_tells_the_model_behind_it(
    pair: list[FakeSglang], tmp_path: Path
) -> None:
    with routing(pair, tmp_path / "router.log") as url:
        async with SglangClient(url, max_connections=4) as client:
            proof = await prove(client, None, health_s=10, generate_s=10)
            assert await read_figures(client) is None
    assert proof.ready
    assert proof.model == pair[0].facts.model_path
    assert (proof.facts or {})["router_workers"] == 2


async def test_the_probe_passes_a_router_with_notes_of_what_cannot_be_seen_through_it(
    pair: list[FakeSglang], tmp_path: Path
) -> None:
    with routing(pair, tmp_path / "router.log") as url:
        report = await probed(url, tmp_path / "tiny")
    assert report.refusals == []
    unseen = {check.name for check in report.checks if check.ok is None}
    assert {"router", "version", "auto_truncate", "echo", "conversation", "vocabulary"} <= unseen
    assert {check.name for check in report.checks if check.ok} >= {"counts", "inside_vocabulary"}
    assert report.weight_versions == ["default"]
    assert report.notes[0].startswith("It is a router in front of 2 servers")


async def test_servers_of_different_weights_behind_one_router_are_said(pair: list[FakeSglang], tmp_path: Path) -> None:
    pair[0].facts.weight_version, pair[1].facts.weight_version = "step-1", "step-2"
    with routing(pair, tmp_path / "router.log") as url:
        report = await probed(url, tmp_path / "tiny")
    assert report.weight_versions == ["step-1", "step-2"]
    assert any("different weights (step-1 and step-2)" in note for note in report.notes)
    assert report.ok


async def test_a_router_without_a_living_server_is_not_ready_and_says_why(
    pair: list[FakeSglang], tmp_path: Path
) -> None:
    with routing(pair, tmp_path / "router.log") as url:
        for server in pair:
            server.stop()
        async with SglangClient(url, max_connections=4) as client:
            proof = await prove(client, None, health_s=10, generate_s=10)
            with pytest.raises(GenerateError) as caught:
                await client.generate([1], {"max_new_tokens": 1}, "0" * 32)
    assert not proof.ready
    assert "A first request by ids failed" in proof.findings[-1].text
    assert caught.value.kind in {"server", "busy"}


async def test_a_key_that_a_router_wants_is_asked_for(pair: list[FakeSglang], tmp_path: Path) -> None:
    with routing(pair, tmp_path / "router.log", "--api-key", "sesame") as url:
        async with SglangClient(url, max_connections=4) as client:
            refused = await prove(client, None, health_s=10, generate_s=10)
        async with SglangClient(url, "sesame", max_connections=4) as client:
            let_in = await prove(client, None, health_s=10, generate_s=10)
    assert refused.unauthorized
    assert let_in.ready


def test_an_attached_router_stays_ready_while_a_server_behind_it_dies(
    lab: Lab, pair: list[FakeSglang], tmp_path: Path
) -> None:
    with routing(pair, tmp_path / "router.log") as url, lab.supervising():
        far = lab.attach(url)
        lab.ask(far, "start")
        row = lab.wait(far, lambda row: row.observed_state == "ready" and row.probe)
        assert (row.server_info or {})["router_workers"] == 2
        row = lab.wait(far, lambda row: any("servers behind it" in item["text"] for item in row.evidence))
        assert row.observed_state == "ready"
        pair[0].stop()
        before = len(pair[1].seen("/generate"))
        lab.wait(far, lambda _row: len(pair[1].seen("/generate")) >= before + 3)
        assert lab.row(far).observed_state == "ready"
        pair[1].stop()
        row = lab.wait(far, "unresponsive")
        assert "A " in row.message
