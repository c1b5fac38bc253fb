"""Pooled connections to one server, as the client of `/generate` uses them: nothing of the environment, cookies or redirects.

They are aiohttp's own: httpx's transport costs several times as much CPU a request, and httpx's requests and responses around
aiohttp half as much again. httpx is left with what is rare, the reading of URLs and of compressed answers.
"""

import os
from collections.abc import AsyncIterator

import aiohttp
import httpx
from yarl import URL

from inference.backends.server.tls import tls_context

KEEP_ALIVE_S = 3.0
"""Idle connections are dropped before the server does it, which is after 5 s"""

CONNECT_TIMEOUT_S = 10.0
_TIMEOUTS = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)


class Connections:
    """A pool of connections, made on the event loop that first asks for it."""

    def __init__(self, limit: int, api_key: str | None) -> None:
        self._limit = limit
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The session that holds them; never closed by a request."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._limit, keepalive_timeout=KEEP_ALIVE_S, ssl=tls_context()),
                headers=self._headers,
                skip_auto_headers=("User-Agent", "Accept"),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=_TIMEOUTS,
                trust_env=False,
            )
        return self._session

    async def aclose(self) -> None:
        """Closes every connection."""
        if self._session is not None:
            await self._session.close()


def why_not(error: Exception) -> str:
    """Why there is no connection, in the system's own words rather than the library's."""
    number = error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    return os.strerror(number) if number and number > 0 else str(error) or type(error).__name__


def to_url(text: str) -> URL:
    """As httpx reads it, which is how URLs are checked where they are entered."""
    return URL(str(httpx.URL(text)))


def chunks_of(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body as it comes; a proxy may compress unasked."""
    raw = response.content.iter_any()
    codings = response.headers.getall("Content-Encoding", [])
    if not codings:
        return raw.__aiter__()
    return httpx.Response(response.status, headers={"Content-Encoding": ", ".join(codings)}, content=raw).aiter_bytes()
