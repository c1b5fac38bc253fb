"""The client of one SGLang server: one prompt a request, ids in and ids out.

Proxies of the environment are never used, and nothing limits how long an answer may take but the caller's own timeout.
"""

import asyncio
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import httpx
import numpy as np
import orjson
from yarl import URL

from inference.backends.server.answers import GenerateError, Generation, Ids, read_generation, refusal
from inference.backends.server.connections import CONNECT_TIMEOUT_S, Connections, chunks_of, to_url, why_not
from inference.backends.server.health import HealthAnswer, check_health
from inference.backends.server.serverinfo import bounded, redact

__all__ = ["NEUTRAL_SAMPLING", "GenerateError", "Generation", "SglangClient", "new_rid"]

NEUTRAL_SAMPLING: dict[str, float | int] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "n": 1,
}
"""Sent for whatever a caller leaves out, so that no server default (or `--preferred-sampling-params`) ever decides"""

STALE_WINDOW_S = 1.0
"""A connection lost this soon after sending, before any byte of an answer, was stale; later it is the server that went"""

MAX_ANSWER = 256 * 2**20
"""Bytes of an answer that are taken: ten million ids and more. Other people's servers may send without end"""
MAX_TOLD = 16 * 2**20
"""The same of what a server tells of itself (`/server_info`, `/v1/loads`, `/metrics`), which several are asked at once"""
_TOO_LONG = "{} sends an answer without end: it was cut off after {} MiB."

OK, NOT_FOUND = 200, 404
_RID_WIDTH = 32
_Reset = aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionResetError


def new_rid() -> str:
    """A request id: 32 hex digits, so that none is the prefix of another (an abort may go by prefix)."""
    return uuid.uuid4().hex


class SglangClient:
    """Requests to one server. Bound to the event loop it is first used on; close it with `aclose` or `async with`."""

    def __init__(self, base_url: str, api_key: str | None = None, *, max_connections: int = 512) -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._generate_url = to_url(f"{self.base_url}/generate")
        self._work = Connections(max_connections, api_key)
        self._control = Connections(8, api_key)  # an abort must not queue behind the requests it is to end

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes every connection; the server aborts what was still in flight."""
        await self._work.aclose()
        await self._control.aclose()

    async def generate(
        self, input_ids: Ids | list[int], sampling: Mapping[str, Any], rid: str, timeout_s: float | None = None
    ) -> Generation:
        """Asks for one answer to `input_ids` (uint32[m], m ≥ 1, each id already checked against the vocabulary).

        `sampling` must name `max_new_tokens` (null: to the end of the context); what else is left out goes as
        NEUTRAL_SAMPLING. Waits at most `timeout_s` seconds, queueing included (None: for ever). Raises GenerateError; after
        a timeout the request is still live on the server until `abort(error.rid)`, or about 4 s after the connection closed.
        """
        ids = _sendable(input_ids)
        if "max_new_tokens" not in sampling:
            raise ValueError("sampling must name max_new_tokens: the server's own default is 128")
        params = {**NEUTRAL_SAMPLING, **sampling}
        if params["n"] != 1:
            raise ValueError("n must be 1: more would lose the request id")
        try:
            async with asyncio.timeout(timeout_s):
                started = time.monotonic()
                try:
                    return await self._generate(ids, params, rid)
                except _LostBeforeAnswerError as lost:
                    if time.monotonic() - started > STALE_WINDOW_S:
                        raise _gone(self.base_url, lost, rid) from lost
                rid = _another(rid)
                try:
                    return await self._generate(ids, params, rid)
                except _LostBeforeAnswerError as lost:
                    raise _gone(self.base_url, lost, rid) from lost
        except TimeoutError:
            raise GenerateError("timeout", None, f"No answer within {timeout_s:g} s.", rid=rid) from None

    async def _generate(self, ids: Ids, params: dict[str, Any], rid: str) -> Generation:
        body = {
            "input_ids": ids,
            "sampling_params": params,
            "rid": rid,
            "stream": False,
            "return_logprob": False,
            "return_prompt_token_ids": True,
        }
        content = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        status, answer = await self._send(self._work, "POST", self._generate_url, content, rid)
        if status != OK:
            raise refusal(status, answer, rid)
        return read_generation(answer, rid)

    async def abort(self, rid: str) -> bool:
        """Asks the server to end a request; True where it took the message (it never says whether the id was known)."""
        try:
            await self.call("POST", "/abort_request", {"rid": rid}, timeout_s=CONNECT_TIMEOUT_S)
        except GenerateError:
            return False
        return True

    async def model_info(self) -> dict[str, Any]:
        """`/model_info`: model and tokenizer path, parsers, weight version. Raises GenerateError."""
        return bounded(await self._info("/model_info", "/get_model_info"))

    async def server_info(self) -> dict[str, Any]:
        """`/server_info` cut to what may be kept (see serverinfo.KEPT). Raises GenerateError. Can hang with the scheduler."""
        return bounded(redact(await self._info("/server_info", "/get_server_info")))

    async def health(self, *, timeout_s: float = 25.0, quick: bool = False) -> HealthAnswer:
        """Whether it is ready (see health.check_health)."""
        return await check_health(self.base_url, self._api_key, timeout_s=timeout_s, quick=quick)

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0
    ) -> Any:
        """Any other endpoint: its JSON, or None for an empty body. Raises GenerateError."""
        answer = await self._ask(method, path, body, timeout_s)
        try:
            return orjson.loads(answer) if answer else None
        except orjson.JSONDecodeError:
            raise GenerateError("malformed", 200, f"{path} answered something that is not JSON.") from None

    async def text(self, path: str, *, timeout_s: float = 10.0) -> str:
        """An endpoint that answers in plain text (`/metrics`). Raises GenerateError."""
        return (await self._ask("GET", path, None, timeout_s)).decode("utf-8", "replace")

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float) -> bytes:
        content = None if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        url = to_url(f"{self.base_url}{path}")
        try:
            async with asyncio.timeout(timeout_s):
                status, answer = await self._send(self._control, method, url, content, None)
        except TimeoutError:
            raise GenerateError("timeout", None, f"{path} did not answer within {timeout_s:g} s.") from None
        except _LostBeforeAnswerError as lost:
            raise _gone(self.base_url, lost, None) from lost
        if status != OK:
            raise refusal(status, answer)
        return answer

    async def _info(self, path: str, old_path: str) -> dict[str, Any]:
        try:
            info = await self.call("GET", path, timeout_s=30.0)
        except GenerateError as error:
            if error.status != NOT_FOUND:  # an older server knows it by its older name
                raise
            info = await self.call("GET", old_path, timeout_s=30.0)
        if not isinstance(info, dict):
            raise GenerateError("malformed", 200, f"{path} answered something that is not an object.")
        return info

    async def _send(
        self, connections: Connections, method: str, url: URL, content: bytes | None, rid: str | None
    ) -> tuple[int, bytes]:
        try:
            async with connections.session().request(method, url, data=content, allow_redirects=False) as response:
                most = MAX_ANSWER if connections is self._work else MAX_TOLD
                chunks: list[bytes] = []
                size = 0
                async for chunk in chunks_of(response):
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > most:
                        message = _TOO_LONG.format(self.base_url, most >> 20)
                        raise GenerateError("malformed", response.status, message, rid=rid)
                return response.status, chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except (aiohttp.ClientError, ConnectionResetError) as error:
            raise self._failure(error, rid) from error
        except httpx.DecodingError:
            raise GenerateError(
                "malformed", None, f"{self.base_url} sent a body that cannot be decompressed.", rid=rid
            ) from None

    def _failure(self, error: Exception, rid: str | None) -> Exception:
        if isinstance(error, _Reset) and not isinstance(error, aiohttp.ClientConnectorError):
            return _LostBeforeAnswerError(str(error) or type(error).__name__)
        if isinstance(error, aiohttp.ClientResponseError):
            said = " ".join(error.message.split())  # it draws the line at fault, with an arrow below
            message = f"{self.base_url} answered something that is not HTTP: {said:.200}."
            return GenerateError("malformed", None, message, rid=rid)
        if isinstance(error, aiohttp.ClientPayloadError):
            message = f"{self.base_url} broke the connection off in the middle of its answer."
        elif isinstance(error, aiohttp.ServerTimeoutError):
            message = f"No connection to {self.base_url} within {CONNECT_TIMEOUT_S:g} s."
        else:
            message = f"{self.base_url} cannot be reached: {why_not(error)}."
        return GenerateError("connection", None, message, rid=rid)


class _LostBeforeAnswerError(Exception):
    """The connection went before any byte of the answer."""


def _gone(base_url: str, lost: _LostBeforeAnswerError, rid: str | None) -> GenerateError:
    return GenerateError("connection", None, f"{base_url} closed the connection without an answer ({lost}).", rid=rid)


def _another(rid: str) -> str:
    """A new id of the same width: the first may still be live, and a second of its name would be refused."""
    fresh = new_rid()
    return fresh if len(rid) <= _RID_WIDTH else rid[:-_RID_WIDTH] + fresh


def _sendable(input_ids: Ids | list[int]) -> Ids:
    ids = np.asarray(input_ids)
    if ids.ndim != 1 or ids.size == 0 or ids.dtype.kind not in "iu":
        raise ValueError("input_ids must be a non-empty list of integers")
    if ids.dtype != np.uint32:
        if int(ids.min()) < 0 or int(ids.max()) >= 2**32:
            raise ValueError("input_ids holds a number that is no token id; one such id takes a whole server down")
        ids = ids.astype(np.uint32)
    return np.ascontiguousarray(ids)
