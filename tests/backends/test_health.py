"""A look at a server ends in one of six answers, each a sentence that names what was asked."""

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from inference.backends.server.health import check_health, is_loopback
from tests.support.fake_sglang import FakeSglang

pytestmark = pytest.mark.anyio
Starter = Callable[..., FakeSglang]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that accepts and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


@pytest.mark.parametrize("state", ["ok", "body:", "body:OK", "body:null", 'body:{"status":"unhealthy"}'])
async def test_health_counts_by_its_status_whatever_its_body(fake_sglang: FakeSglang, state: str) -> None:
    fake_sglang.knobs.health = state
    fake_sglang.knobs.ready = "ok"
    answer = await check_health(fake_sglang.url)
    assert (answer.kind, answer.status, answer.url) == ("ok", 200, f"{fake_sglang.url}/health")
    assert answer.ok


async def test_ready_is_asked_first_and_health_only_where_it_says_yes(fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.ready = "starting"
    answer = await check_health(fake_sglang.url)
    assert (answer.kind, answer.status) == ("not_ready", 503)
    assert [seen.path for seen in fake_sglang.requests] == ["/ready"]


async def test_ready_alone_is_not_proof_unless_a_quick_look_is_asked_for(fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.ready = "ok"
    fake_sglang.knobs.health = "busy"
    assert (await check_health(fake_sglang.url, quick=True)).ok
    answer = await check_health(fake_sglang.url)
    assert answer.kind == "not_ready"
    assert "/health" in answer.text


async def test_a_server_without_ready_is_asked_for_health(fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.missing = {"/ready"}
    assert (await check_health(fake_sglang.url, quick=True)).ok
    fake_sglang.knobs.health = "starting"
    assert (await check_health(fake_sglang.url)).kind == "not_ready"


async def test_listed_models_do_not_make_a_server_ready(fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.health = "starting"
    assert not (await check_health(fake_sglang.url)).ok


async def test_a_draining_server_is_not_ready(fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.draining = True
    assert (await check_health(fake_sglang.url)).kind == "not_ready"


async def test_a_hung_scheduler_is_a_timeout(fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.health = "hang"
    fake_sglang.knobs.ready = "ok"
    answer = await check_health(fake_sglang.url, timeout_s=0.2)
    assert (answer.kind, answer.status) == ("timeout", None)
    assert "within 0.2 s" in answer.text


async def test_a_port_that_never_answers_is_a_timeout(deaf_port: int) -> None:
    answer = await check_health(f"http://127.0.0.1:{deaf_port}", timeout_s=0.2)
    assert answer.kind == "timeout"


async def test_nobody_there_is_refused(fake_sglang: FakeSglang) -> None:
    fake_sglang.stop()
    answer = await check_health(fake_sglang.url)
    assert answer.kind == "refused"
    assert fake_sglang.url in answer.text


@pytest.mark.parametrize(
    ("status", "kind"), [(500, "error"), (404, "error"), (401, "unauthorized"), (403, "unauthorized")]
)
async def test_other_statuses_are_told_apart(fake_sglang: FakeSglang, status: int, kind: str) -> None:
    fake_sglang.knobs.ready = 404
    fake_sglang.knobs.health = status
    answer = await check_health(fake_sglang.url)
    assert (answer.kind, answer.status) == (kind, status)


async def test_what_is_no_http_is_an_error() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]

        async def chat() -> None:
            loop = asyncio.get_running_loop()
            listener.setblocking(False)
            peer, _ = await loop.sock_accept(listener)
            with peer:
                await loop.sock_recv(peer, 1024)
                await loop.sock_sendall(peer, b"220 smtp ready\r\n")

        talk = asyncio.create_task(chat())
        answer = await check_health(f"http://127.0.0.1:{port}", timeout_s=5)
        await talk
    assert answer.kind == "error"


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://127.0.0.1", "http://", "http://[::1"])
async def test_a_url_that_is_none_is_an_answer_too(url: str) -> None:
    answer = await check_health(url, timeout_s=1)
    assert answer.kind == "error"
    assert url in answer.text


async def test_a_proxy_of_the_environment_does_not_answer_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert not (await check_health("http://server.invalid:30000", timeout_s=20)).ok


async def test_loopback_bypasses_the_proxies_of_the_environment(
    fake_sglang: FakeSglang, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await check_health(fake_sglang.url)).ok
    assert (await check_health(fake_sglang.url.replace("127.0.0.1", "localhost"))).ok


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1", True), ("http://127.3.2.1", True), ("http://localhost:1", True), ("http://[::1]:1", True),
        ("http://0.0.0.0:1", True), ("http://10.0.0.1", False), ("http://gpu-7.example", False), ("http://localhost.example", False),
    ],
)  # fmt: skip
def test_loopback_is_known_by_name_and_number(url: str, local: bool) -> None:
    assert is_loopback(url) is local


async def test_the_key_goes_along(start_fake_sglang: Starter) -> None:
    server = start_fake_sglang()
    await check_health(server.url, "sk-1")
    assert {seen.headers.get("authorization") for seen in server.requests} == {"Bearer sk-1"}
