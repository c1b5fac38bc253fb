"""The client gives exact ids or says in a sentence why not."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import orjson
import pytest

from db.engine import Database
from db.tables import Backend
from inference.backends.server.answers import read_generation, refusal, sentence_of
from inference.backends.server.client import GenerateError, SglangClient, new_rid
from tests.support.fake_sglang import RECORDED_ANSWER, Answer, Facts, FakeSglang, Knobs

pytestmark = pytest.mark.anyio

PROMPT = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]
GREEDY = {"temperature": 0, "max_new_tokens": 64}
Starter = Callable[..., FakeSglang]
Answering = Callable[[int | None, bytes], Awaitable[str]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def client(fake_sglang: FakeSglang) -> AsyncIterator[SglangClient]:
    async with SglangClient(fake_sglang.url, max_connections=600) as made:
        yield made


async def refused(
    client: SglangClient, sampling: dict[str, Any] | None = None, timeout_s: float | None = 20
) -> GenerateError:
    with pytest.raises(GenerateError) as caught:
        await client.generate(PROMPT, sampling or GREEDY, new_rid(), timeout_s)
    return caught.value


async def test_ids_come_back_exactly_with_their_facts(client: SglangClient) -> None:
    rid = new_rid()
    done = await client.generate(np.array(PROMPT, dtype=np.uint32), GREEDY, rid, 20)
    assert done.output_ids.dtype == np.uint32
    assert done.output_ids.tolist() == RECORDED_ANSWER
    assert done.prompt_ids is not None
    assert done.prompt_ids.tolist() == PROMPT
    assert (done.finish_type, done.finish_matched, done.finish_length) == ("stop", 151645, None)
    assert (done.prompt_tokens, done.completion_tokens, done.rid) == (9, 15, rid)
    assert done.weight_version == "default"


@pytest.mark.parametrize("high", [65_536, 131_072, 200_012, 2**32 - 1])
async def test_ids_above_sixteen_and_seventeen_bits_survive(
    fake_sglang: FakeSglang, client: SglangClient, high: int
) -> None:
    fake_sglang.facts.vocab_size = 2**32
    fake_sglang.script = lambda call: Answer(output_ids=[*call.prompt_ids, 0, high], exact=True)
    done = await client.generate([high, 1], GREEDY, new_rid(), 20)
    assert done.output_ids.tolist() == [high, 1, 0, high]
    assert done.prompt_ids is not None
    assert done.prompt_ids.tolist() == [high, 1]


async def test_nothing_is_sampled_at_a_server_default(fake_sglang: FakeSglang, client: SglangClient) -> None:
    await client.generate(PROMPT, {"top_p": 0.9, "max_new_tokens": 5}, new_rid(), 20)
    body = fake_sglang.seen("/generate")[0].body
    assert body["sampling_params"] == {
        "temperature": 1.0, "top_p": 0.9, "top_k": -1, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0,
        "repetition_penalty": 1.0, "n": 1, "max_new_tokens": 5,
    }  # fmt: skip
    assert (body["stream"], body["return_logprob"], body["return_prompt_token_ids"]) == (False, False, True)
    with pytest.raises(ValueError, match="max_new_tokens"):
        await client.generate(PROMPT, {"temperature": 0}, new_rid())
    with pytest.raises(ValueError, match="n must be 1"):
        await client.generate(PROMPT, {**GREEDY, "n": 2}, new_rid())


@pytest.mark.parametrize("ids", [[], [-1], [2**32], [1.5], [True], [[1]], ["1"]])
async def test_ids_that_could_kill_a_server_are_never_sent(
    fake_sglang: FakeSglang, client: SglangClient, ids: list[Any]
) -> None:
    with pytest.raises(ValueError, match="input_ids"):
        await client.generate(ids, GREEDY, new_rid())
    assert fake_sglang.requests == []


@pytest.mark.parametrize(
    ("status", "shape", "kind"),
    [
        (400, "a", "rejected"), (400, "b", "rejected"), (400, "c", "rejected"), (404, "detail", "rejected"), (413, "plain", "rejected"),
        (503, "d", "busy"), (429, "d", "busy"), (408, "plain", "busy"), (425, "plain", "busy"), (409, "d", "busy"),
        (500, "d", "server"), (500, "plain", "server"), (502, "plain", "server"), (302, "plain", "server"),
    ],
)  # fmt: skip
async def test_each_error_body_yields_the_servers_sentence(
    fake_sglang: FakeSglang, client: SglangClient, status: int, shape: str, kind: str
) -> None:
    fake_sglang.answers(Answer(status=status, shape=shape, message="No room\nfor this."))
    error = await refused(client)
    assert (error.kind, error.status, error.message) == (kind, status, "No room for this.")


async def test_a_proxys_page_is_read_as_its_words(fake_sglang: FakeSglang, client: SglangClient) -> None:
    page = "<html><head><style>b{}</style><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"
    fake_sglang.answers(
        Answer(status=502, shape="plain", message=page), Answer(status=500, shape="plain", message="x" * 9000)
    )
    assert (await refused(client)).message == "502 Bad Gateway nginx"
    assert len((await refused(client)).message) == 500


async def test_refusals_of_the_real_checks(fake_sglang: FakeSglang, client: SglangClient) -> None:
    assert "unknown field `bogus`" in (await refused(client, {**GREEDY, "bogus": 1})).message
    too_long = await refused(client, {"max_new_tokens": 5000})
    assert too_long.kind == "rejected"
    assert "maximum context length of 4096 tokens" in too_long.message


async def test_a_wrong_key_is_said_to_be_one(fake_sglang: FakeSglang) -> None:
    fake_sglang.facts.api_key = "right"
    for key in (None, "wrong"):
        async with SglangClient(fake_sglang.url, key, max_connections=2) as client:
            error = await refused(client)
            assert (error.kind, error.status) == ("unauthorized", 401)
    async with SglangClient(fake_sglang.url, "right", max_connections=2) as client:
        assert (await client.generate(PROMPT, GREEDY, new_rid(), 20)).output_ids.size == 15


async def test_an_abort_behind_a_200_is_a_failure(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.answers(Answer.aborted([1, 2]))
    error = await refused(client)
    assert (error.kind, error.message) == ("aborted", "The server aborted the request: 'Aborted'.")


async def test_an_abort_in_the_waiting_queue_is_an_abort_too(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.answers(Answer(hang=True, queued=True))
    rid = new_rid()
    task = asyncio.create_task(client.generate(PROMPT, GREEDY, rid, 20))
    await fake_sglang.until_live(1)
    assert await client.abort(rid)
    with pytest.raises(GenerateError, match="Abort in waiting queue") as caught:
        await task
    assert caught.value.kind == "aborted"


async def test_nan_is_a_failure_with_its_code(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.answers(Answer.nan([5, 151645]))
    error = await refused(client)
    assert (error.kind, error.code) == ("server", "nan")


MALFORMED = {
    "not json": Answer(body="{not json"),
    "an array": Answer(body="[]"),
    "empty": Answer(body=""),
    "null": Answer(body="null"),
    "no meta_info": Answer(body='{"output_ids":[1]}'),
    "ids missing": Answer(remove=("output_ids",)),
    "reason missing": Answer(remove=("finish_reason",)),
    "reason null": Answer(meta={"finish_reason": None}),
    "reason unknown": Answer(finish_reason={"type": "tired"}),
    "matched a bool": Answer(finish_reason={"type": "stop", "matched": True}),
    "count missing": Answer(remove=("completion_tokens",)),
    "count negative": Answer(meta={"completion_tokens": -1}),
    "count a bool": Answer(meta={"completion_tokens": True}),
    "prompt count missing": Answer(remove=("prompt_tokens",)),
    "someone else's answer": Answer(rid="0" * 32),
    "echo no list": Answer(meta={}, prompt_token_ids=[[1]]),  # type: ignore[list-item]  (wrong on purpose)
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_answer_is_no_answer(fake_sglang: FakeSglang, client: SglangClient, name: str) -> None:
    fake_sglang.answers(MALFORMED[name])
    error = await refused(client)
    assert (error.kind, error.status) == ("malformed", 200)
    assert len(error.message) < 600


@pytest.mark.parametrize(
    "ids", [[1, -2], [1, 2.0], [1, True], [1, None], [1, "2"], [2**32], [[1]], [2**70], "12", {"0": 1}]
)
async def test_ids_that_are_no_ids_are_refused(fake_sglang: FakeSglang, client: SglangClient, ids: Any) -> None:
    def answer(call: Any) -> Answer:
        meta = {
            "id": call.rid,
            "finish_reason": {"type": "length", "length": 2},
            "prompt_tokens": 9,
            "completion_tokens": 2,
        }
        body = {"text": "", "output_ids": "ids", "meta_info": meta}
        text = orjson.dumps(body).decode()
        shown = str(2**70).join("[]") if ids == [2**70] else orjson.dumps(ids).decode()
        return Answer(body=text.replace('"ids"', shown))

    fake_sglang.script = answer
    error = await refused(client)
    assert error.kind == "malformed"
    assert "output_ids" in error.message


async def test_true_in_the_text_is_no_bool_in_the_ids(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.script = lambda call: Answer(
        body=orjson.dumps({
            "text": "true or false", "output_ids": [1, 0],
            "meta_info": {
                "id": call.rid, "finish_reason": {"type": "stop", "matched": 0}, "prompt_tokens": 9, "completion_tokens": 2
            },
        }).decode()
    )  # fmt: skip
    assert (await client.generate(PROMPT, GREEDY, new_rid(), 20)).output_ids.tolist() == [1, 0]


async def test_an_error_behind_a_200_is_the_servers_error(fake_sglang: FakeSglang, client: SglangClient) -> None:
    frame = 'data: {"error":{"message":"too long","type":"invalid_request_error","code":400,"retryable":false}}\n\ndata: [DONE]\n\n'
    fake_sglang.answers(Answer(body=frame))
    error = await refused(client)
    assert error.kind == "server"
    assert error.message.endswith("too long")


@pytest.mark.parametrize("cut", [1, 40, 300])
async def test_half_a_body_is_no_answer(fake_sglang: FakeSglang, client: SglangClient, cut: int) -> None:
    fake_sglang.answers(Answer(cut=cut))
    error = await refused(client)
    assert error.kind == "connection"
    assert len(fake_sglang.seen("/generate")) == 1


async def test_a_stale_connection_is_tried_once_more_under_a_new_id(
    fake_sglang: FakeSglang, client: SglangClient
) -> None:
    fake_sglang.answers(Answer(drop=True))
    rid = new_rid()
    done = await client.generate(PROMPT, GREEDY, rid, 20)
    first, second = (seen.body["rid"] for seen in fake_sglang.seen("/generate"))
    assert (first, second) == (rid, done.rid)
    assert first != second
    assert len(first) == len(second)


async def test_a_connection_lost_twice_is_an_error(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.answers(Answer(drop=True), Answer(drop=True))
    assert (await refused(client)).kind == "connection"
    assert len(fake_sglang.seen("/generate")) == 2


async def test_a_server_that_closes_idle_connections_loses_no_request(start_fake_sglang: Starter) -> None:
    server = start_fake_sglang(keep_alive=0.05)
    async with SglangClient(server.url, max_connections=4) as client:
        for pause in (0.0, 0.049, 0.05, 0.051, 0.06, 0.1):
            await asyncio.sleep(pause)
            assert (await client.generate(PROMPT, GREEDY, new_rid(), 20)).output_ids.size == 15


async def test_a_dead_server_is_a_connection_error(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.stop()
    error = await refused(client)
    assert error.kind == "connection"
    assert fake_sglang.url in error.message


async def test_a_server_that_dies_ends_every_request_in_flight(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.script = lambda call: Answer(hang=True) if call.number < 20 else Answer(die=True)
    results = await asyncio.gather(
        *(client.generate(PROMPT, GREEDY, new_rid(), 60) for _ in range(20)), return_exceptions=True
    )
    assert {error.kind for error in results if isinstance(error, GenerateError)} == {"connection"}
    assert len(results) == 20
    fake_sglang.script = None
    fake_sglang.restart()
    assert (await client.generate(PROMPT, GREEDY, new_rid(), 20)).output_ids.size == 15


async def test_a_timeout_names_the_request_so_that_it_can_be_aborted(
    fake_sglang: FakeSglang, client: SglangClient
) -> None:
    fake_sglang.knobs.disconnect_grace = 30
    fake_sglang.answers(Answer(hang=True))
    error = await refused(client, timeout_s=0.2)
    assert error.kind == "timeout"
    assert error.rid in fake_sglang.model.live
    assert await client.abort(error.rid or "")
    await fake_sglang.until_live(0)


async def test_a_timeout_counts_the_wait_for_a_connection(fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda _call: Answer(hang=True)
    async with SglangClient(fake_sglang.url, max_connections=1) as client:
        errors = await asyncio.gather(refused(client, timeout_s=0.2), refused(client, timeout_s=0.2))
        assert {error.kind for error in errors} == {"timeout"}
        fake_sglang.script = None
        assert (await client.generate(PROMPT, GREEDY, new_rid(), 20)).output_ids.size == 15


async def test_an_abort_does_not_queue_behind_what_it_ends(fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda _call: Answer(hang=True)
    async with SglangClient(fake_sglang.url, max_connections=2) as client:
        rids = [new_rid(), new_rid()]
        tasks = [asyncio.create_task(client.generate(PROMPT, GREEDY, rid, 30)) for rid in rids]
        await fake_sglang.until_live(2)
        for rid in rids:
            assert await client.abort(rid)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, GenerateError)
            assert result.kind == "aborted"


async def test_an_abort_takes_no_other_request_along_even_by_prefix(
    fake_sglang: FakeSglang, client: SglangClient
) -> None:
    fake_sglang.knobs.abort_by_prefix = True
    rids = [new_rid() for _ in range(50)]
    assert {len(rid) for rid in rids} == {32}
    fake_sglang.script = lambda call: Answer(hang=True) if call.rid == rids[0] else Answer(delay=0.3)
    tasks = [asyncio.create_task(client.generate(PROMPT, GREEDY, rid, 30)) for rid in rids]
    await fake_sglang.until_live(50)
    await client.abort(rids[0])
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], GenerateError)
    assert [type(result).__name__ for result in results[1:]] == ["Generation"] * 49


async def test_an_abort_of_a_dead_server_says_no(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.stop()
    assert not await client.abort(new_rid())


async def test_a_cancelled_request_is_gone_from_the_server_too(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.answers(Answer(hang=True))
    task = asyncio.create_task(client.generate(PROMPT, GREEDY, new_rid(), 30))
    await fake_sglang.until_live(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await fake_sglang.until_live(0)


async def test_five_hundred_and_twelve_requests_fly_at_once(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.script = lambda call: Answer(output_ids=call.prompt_ids[::-1], exact=True, delay=0.5)
    rng = np.random.default_rng(5)
    prompts = [rng.integers(0, 151_936, size=1 + i % 40).astype(np.uint32) for i in range(512)]
    results = await asyncio.gather(*(client.generate(prompt, GREEDY, new_rid(), 60) for prompt in prompts))
    assert fake_sglang.model.peak == 512
    for prompt, done in zip(prompts, results, strict=True):
        assert done.output_ids.tolist() == prompt[::-1].tolist()


async def test_proxies_of_the_environment_are_not_used(
    fake_sglang: FakeSglang, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with SglangClient(fake_sglang.url, max_connections=2) as client:
        assert (await client.generate(PROMPT, GREEDY, new_rid(), 20)).output_ids.size == 15
        assert (await client.health()).ok


async def test_server_info_keeps_no_secret(start_fake_sglang: Starter) -> None:
    server = start_fake_sglang(facts=Facts(api_key="sk-very-secret", admin_api_key="adm-secret"))
    async with SglangClient(server.url, "sk-very-secret", max_connections=2) as client:
        raw = await client.call("GET", "/server_info")
        assert "sk-very-secret" in orjson.dumps(raw).decode()
        kept = await client.server_info()
    text = orjson.dumps(kept).decode()
    assert "secret" not in text
    assert (kept["version"], kept["max_req_input_len"]) == ("0.5.23", 4090)
    assert kept["internal_states"] == [{"effective_max_running_requests_per_dp": 4096, "last_gen_throughput": 0.0}]


async def test_where_nothing_listens_is_told_in_the_systems_words() -> None:
    with socket.socket() as bound:  # bound, and nobody listens
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with SglangClient(url, max_connections=2) as client:
            error = await refused(client)
    assert (error.kind, error.message) == ("connection", f"{url} cannot be reached: Connection refused.")


async def test_what_a_server_tells_of_itself_is_cut_to_what_a_row_and_a_page_hold(answering: Answering) -> None:
    told = {
        "model_path": "/m\0\u202e\x1b" + "a" * 100_000,
        "version": "b" * 100_000,
        "preferred_sampling_params": {"x": "c" * 100_000},
    }
    told |= {"status": {"said": "d\0"}, "context_length": 4096}
    url = await answering(200, orjson.dumps(told))
    async with SglangClient(url, max_connections=2) as client:
        for info in (await client.model_info(), await client.server_info()):
            assert info["model_path"].startswith("/m\ufffd\ufffd\ufffda")
            assert (info["status"], info["context_length"]) == ({"said": "d\ufffd"}, 4096)
            assert "preferred_sampling_params" not in info
            assert len(orjson.dumps(info)) < 5000


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
            "leads to another address",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not HTTP: Bad status line: Expected"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n" + b" " * 2**25, "cut off after 16 MiB"),
    ],
)
async def test_an_address_that_is_no_sglang_server_is_told_in_a_line(
    answering: Answering, raw: bytes, told: str
) -> None:
    async with SglangClient(await answering(None, raw), max_connections=2) as client:
        with pytest.raises(GenerateError) as caught:
            await client.model_info()
    assert told in caught.value.message
    assert "\n" not in caught.value.message


async def test_an_older_server_is_asked_by_older_names(start_fake_sglang: Starter) -> None:
    server = start_fake_sglang(knobs=Knobs(missing={"/model_info", "/server_info"}))
    async with SglangClient(server.url, max_connections=2) as client:
        assert (await client.model_info())["model_path"] == "models/think"
        assert (await client.server_info())["version"] == "0.5.23"


@pytest.fixture
async def answering() -> AsyncIterator[Answering]:
    """Servers that answer everything alike: (status, body), or raw bytes where the status is None."""
    servers: list[asyncio.Server] = []

    async def start(status: int | None, answer: bytes) -> str:
        if status is not None:
            answer = f"HTTP/1.1 {status} X\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                writer.write(answer)
                await writer.drain()
            writer.close()

        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0))
        return f"http://127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


@pytest.fixture
async def endless() -> AsyncIterator[str]:
    """A server whose answers never end."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
                await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in writers:
        writer.transport.abort()
    await server.wait_closed()


async def test_an_answer_without_end_is_cut_off(endless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.backends.server.client.MAX_ANSWER", 2**20)
    async with SglangClient(endless, "key") as client:
        error = await refused(client)
        assert (error.kind, error.status) == ("malformed", 200)
        assert "without end" in error.message
        with pytest.raises(GenerateError):
            await client.server_info()
        assert (await client.health(timeout_s=20)).ok  # its status says all; the body is not waited for


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (
            b"<html><script>if (a<b) {}</script><style>b{}</style><h1>502 Bad</h1><p class='x'>gateway",
            "502 Bad gateway",
        ),
        (b"<SCRIPT src='x'>a</SCRIPT>gone", "gone"),
        (b"a < b and <i>c</i>", "a < b and c"),
        (b"<script" * 9000, "<script<script"),
        (b"<" * 65_536, "<<<<"),
    ],
)
def test_an_error_page_is_read_as_text_however_hostile(page: bytes, said: str) -> None:
    assert sentence_of(page).startswith(said)


def test_what_is_no_sglang_at_all_is_quoted_in_words_that_can_be_kept(database: Database) -> None:
    other = b"\x00\x01binary \xff\x00 protocol"
    with pytest.raises(GenerateError) as malformed:
        read_generation(other, "rid")
    said = [malformed.value.message, refusal(500, other).message, refusal(400, b'{"error": "a\\u0000b"}').message]
    assert all("\ufffd" in text for text in said)
    with database.write() as s:
        evidence = [{"source": "generation", "at": "", "ok": False, "text": text} for text in said]
        s.add(Backend(name="far", kind="attached", message=said[0], evidence=evidence))


def test_a_weight_version_is_no_longer_than_what_keeps_it() -> None:
    meta = {
        "id": "rid",
        "finish_reason": {"type": "length", "length": 1},
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "weight_version": "v\0" + "w" * 500,
    }
    answer = read_generation(orjson.dumps({"output_ids": [7], "meta_info": meta}), "rid")
    assert answer.weight_version == "v\ufffd" + "w" * 118
