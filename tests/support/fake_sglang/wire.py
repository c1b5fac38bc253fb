"""HTTP/1.1 by hand, so that every way of breaking off can be played: no bytes, half a body, silence, a dead server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast


@dataclass
class Request:
    """One request as it came."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    raw: bytes
    body: Any = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has hung up"""


@dataclass(frozen=True)
class Response:
    """One answer; `cut` sends only so many bytes of the body and closes, `drop` sends nothing and closes."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cut: int | None = None
    drop: bool = False
    frames: tuple[str, ...] | None = None
    """Server-sent events instead of a body"""

    @classmethod
    def of(cls, data: object, status: int = 200) -> "Response":
        """A JSON answer."""
        return cls(status, json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(), "application/json")


Handler = Callable[[Request], Awaitable[Response]]


class Connection(asyncio.Protocol):
    """One client connection; requests are answered in order, keep-alive ends after `idle_s` without one."""

    def __init__(self, handler: Handler, connections: set["Connection"], idle_s: float) -> None:
        self._handler, self._connections, self._idle_s = handler, connections, idle_s
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._request: Request | None = None
        self._idle: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._wait_idle()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the protocol's signature)
        self._connections.discard(self)
        if self._request is not None:
            self._request.gone.set()
        if self._idle is not None:
            self._idle.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _wait_idle(self) -> None:
        self._idle = asyncio.get_running_loop().call_later(self._idle_s, self.transport.close)

    def _next(self) -> None:
        if self._task is not None and not self._task.done():
            return
        request = self._parse()
        if request is None:
            return
        if self._idle is not None:
            self._idle.cancel()
        self._request = request
        self._task = asyncio.create_task(self._answer(request))
        self._task.add_done_callback(
            lambda task: self._next() if not task.cancelled() and not self.transport.is_closing() else None
        )

    def _parse(self) -> Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        if first.count(" ") < 2 or first.startswith("PRI "):  # no HTTP/1: HTTP/2 without asking, say, as routers try it
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\nInvalid HTTP request received.")
            self.transport.close()
            self._buffer = b""
            return None
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("expect") == "100-continue" and len(self._buffer) == end + 4:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        total = end + 4 + int(headers.get("content-length", "0"))
        if len(self._buffer) < total:
            return None
        raw, self._buffer = self._buffer[end + 4 : total], self._buffer[total:]
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        return Request(method, path, query, headers, raw)

    async def _answer(self, request: Request) -> None:
        response = await self._handler(request)
        self._request = None
        if self.transport.is_closing():
            return
        if response.drop:
            self.transport.close()
            return
        self.transport.write(
            _head(response)
            + (_events(response.frames) if response.frames is not None else response.body[: response.cut])
        )
        if response.cut is not None or request.headers.get("connection", "").lower() == "close":
            self.transport.close()
        else:
            self._wait_idle()


def _head(response: Response) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}", "server: uvicorn"]
    if response.frames is not None:
        lines += ["content-type: text/event-stream; charset=utf-8", "transfer-encoding: chunked"]
    else:
        lines.append(f"content-length: {len(response.body)}")
        if response.content_type is not None:
            lines.append(f"content-type: {response.content_type}")
    lines += [f"{name}: {value}" for name, value in response.headers]
    return ("\r\n".join(lines) + "\r\nvary: Origin\r\n\r\n").encode()


def _events(frames: tuple[str, ...]) -> bytes:
    chunks = [f"data: {frame}\n\n".encode() for frame in (*frames, "[DONE]")]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
