"""Server-sent events: a state told again when it changed, or a log told on from where the reader was.

A stream lives a bounded time and ends when the app closes; the browser comes back by itself with `Last-Event-ID`. So a token
that was revoked meanwhile stops working for streams too.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable

from fastapi.sse import ServerSentEvent
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

EVERY_S = 1.0
LIFETIME_S = 600.0
RETRY_MS = 2000
QUIET_S = 15.0
"""Silence after which a comment is sent, so that neither proxies nor a half-closed connection stay unnoticed."""

_POSITION = re.compile(r"([0-9]{1,9})-([0-9]{1,18})")
"""Longer numbers are no position that was ever given out, and no database compares them."""

LogReader = Callable[[int, int], tuple[int, int, str]]
"""(start id, byte offset) → (start id, next byte offset, text)"""


async def ticks(request: Request) -> AsyncIterator[None]:
    """At once, then once a second until the app closes or the stream has lived its time."""
    closing: asyncio.Event = request.app.state.closing
    end = time.monotonic() + LIFETIME_S
    while not closing.is_set() and time.monotonic() < end:
        yield
        try:
            await asyncio.wait_for(closing.wait(), EVERY_S)
        except TimeoutError:
            continue


async def changes(request: Request, event: str, read: Callable[[], BaseModel]) -> AsyncIterator[ServerSentEvent]:
    """The whole state whenever it changed; `id` is its digest, so that a reader who has it is not told again.

    Args:
        request: its `Last-Event-ID` and the app's closing.
        event: the event's name.
        read: the state now; called in a thread.
    """
    last = request.headers.get("last-event-id", "")
    spoken = time.monotonic()
    yield ServerSentEvent(comment="open", retry=RETRY_MS)
    async for _ in ticks(request):
        state = (await run_in_threadpool(read)).model_dump_json()
        digest = hashlib.sha256(state.encode()).hexdigest()[:16]
        if digest != last:
            yield ServerSentEvent(event=event, id=digest, raw_data=state)
            last, spoken = digest, time.monotonic()
        elif time.monotonic() - spoken > QUIET_S:
            yield ServerSentEvent(comment="quiet")
            spoken = time.monotonic()


async def log_lines(request: Request, read: LogReader, position: str = "") -> AsyncIterator[ServerSentEvent]:
    """A log as it grows: events `log` with the text, `restart` when another start's log begins.

    `id` is `start-offset`: bytes of the log already told; a reader without one begins at `position`.
    """
    start, offset = _log_position(request.headers.get("last-event-id", position))
    spoken = time.monotonic()
    yield ServerSentEvent(comment="open", retry=RETRY_MS)
    async for _ in ticks(request):
        more = True
        while more:
            now_start, now_offset, text = await run_in_threadpool(read, start, offset)
            if now_start != start and start:
                yield ServerSentEvent(event="restart", id=f"{now_start}-0", data={"start": now_start})
                spoken = time.monotonic()
            more = bool(text) or (start not in {0, now_start})
            start, offset = now_start, now_offset
            if text:
                yield ServerSentEvent(event="log", id=f"{start}-{offset}", data=text)
                spoken = time.monotonic()
        if time.monotonic() - spoken > QUIET_S:
            yield ServerSentEvent(comment="quiet")
            spoken = time.monotonic()


def _log_position(last: str) -> tuple[int, int]:
    found = _POSITION.fullmatch(last)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)
