"""Whether a server answers and is ready, asked over HTTP, with a sentence fit for the page.

`/ready` is asked first: it costs nothing and knows about pausing and draining, but cannot see a scheduler that hangs.
`/health` really generates a token; its 200 counts whatever its body, and it takes a second at least and twenty when busy.
"""

import asyncio
import ipaddress
from dataclasses import dataclass
from typing import Literal

import httpx

from inference.backends.server.answers import sentence_of
from inference.backends.server.tls import tls_context

MAX_BODY = 65_536
"""Bytes of an answer that are looked at; a server may send without end"""

HealthKind = Literal["ok", "not_ready", "refused", "timeout", "error", "unauthorized"]

HEALTH_TIMEOUT_S = 25.0
"""A little more than the 20 s that the server itself waits for its scheduler"""


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """What one look at a server said. `refused`: nothing listens there; `not_ready`: it answers, but will not serve yet."""

    kind: HealthKind
    status: int | None
    text: str
    url: str

    @property
    def ok(self) -> bool:
        """Whether it is ready to serve."""
        return self.kind == "ok"


async def check_health(
    base_url: str, api_key: str | None = None, *, timeout_s: float = HEALTH_TIMEOUT_S, quick: bool = False
) -> HealthAnswer:
    """Asks `/ready` where it exists, then `/health`; with `quick` a `/ready` that says yes is enough.

    Never raises for a sick server. Proxies of the environment are not used, as they are not for the requests of runs.
    """
    base = base_url.rstrip("/")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with httpx.AsyncClient(
            trust_env=False, headers=headers, timeout=timeout_s, verify=tls_context()
        ) as client:
            ready = await _ask(client, f"{base}/ready", timeout_s)
            if ready.status == 404:  # noqa: PLR2004  (an older server or a router without /ready)
                return await _ask(client, f"{base}/health", timeout_s)
            return ready if quick or not ready.ok else await _ask(client, f"{base}/health", timeout_s)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError) as error:
        return HealthAnswer("error", None, f"{base} is not a URL that can be asked: {error}", base)


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    host = httpx.URL(url).host
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


async def _ask(client: httpx.AsyncClient, url: str, timeout_s: float) -> HealthAnswer:
    try:
        async with asyncio.timeout(timeout_s), client.stream("GET", url) as response:
            body = b""
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) >= MAX_BODY:
                    break
    except httpx.ConnectTimeout:
        return HealthAnswer("timeout", None, f"No connection to {url} within {timeout_s:g} s.", url)
    except (httpx.TimeoutException, TimeoutError):
        return HealthAnswer("timeout", None, f"{url} did not answer within {timeout_s:g} s.", url)
    except httpx.ConnectError as error:
        return HealthAnswer("refused", None, f"Nothing listens at {url} ({error}).", url)
    except httpx.UnsupportedProtocol:
        raise
    except httpx.TransportError as error:
        return HealthAnswer("error", None, f"{url} broke the connection off ({error or type(error).__name__}).", url)
    return _read(response.status_code, body, url)


def _read(status: int, body: bytes, url: str) -> HealthAnswer:
    said = sentence_of(body)
    tail = f": {said}" if said else ""
    if status == 200:  # noqa: PLR2004  (the status is the answer, the body may be empty)
        return HealthAnswer("ok", status, f"{url} answered 200.", url)
    if status == 503:  # noqa: PLR2004  (starting, draining, paused, or too busy to answer within 20 s)
        return HealthAnswer(
            "not_ready", status, f"{url} answered 503: it starts, drains, or is too busy to answer{tail}.", url
        )
    if status in {401, 403}:
        return HealthAnswer("unauthorized", status, f"{url} answered {status}: the API key is missing or wrong.", url)
    return HealthAnswer("error", status, f"{url} answered {status}{tail}.", url)
