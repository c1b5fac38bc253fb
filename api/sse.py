"""Server-sent events: a state told again when it changed, or a log told on from where the reader was.

A stream lives a bounded time and ends when the app closes; the browser comes back by itself with `Last-Event-ID`. So a token
that was revoked meanwhile stops working for streams too.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence

from fastapi.sse import ServerSentEvent
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from api.logfeed import News
from inference.backends.lives import LogLineView
from inference.backends.logs.folding import LogLine
from inference.backends.logs.reading import AT_ONCE

EVERY_S = 1.0
LIFETIME_S = 600.0
RETRY_MS = 2000
QUIET_S = 15.0
"""Silence after which a comment is sent, so that neither proxies nor a half-closed connection stay unnoticed."""

_POSITION = re.compile(r"([0-9]{1,9})-([0-9]{1,18})")
"""Longer numbers are no position that was ever given out, and no database compares them."""

LogReader = Callable[[int, int], News]
"""(start id, byte offset) → what follows"""


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


async def log_lines(
    request: Request, read: LogReader, position: str = "", *, as_lines: bool = False
) -> AsyncIterator[ServerSentEvent]:
    """A log as it grows, from `Last-Event-ID`, else from `position`, else from near its end.

    Events: `log` (text) or, as lines, `lines` (a list); `restart` when another start's log begins; `skipped` (bytes) before what
    comes after a stretch that a reader who was too slow is not given; as lines also `unfinished`, the last line as far as it is
    written. `id` is `start-offset`: bytes of the log already told. One event is made at a time, and only when the one before was
    taken: a browser that does not read costs neither memory nor anybody's time.
    """
    start, offset = _log_position(request.headers.get("last-event-id", position))
    spoken, unfinished = time.monotonic(), ""
    yield ServerSentEvent(comment="open", retry=RETRY_MS)
    async for _ in ticks(request):
        more = True
        while more and not request.app.state.closing.is_set():
            news = await run_in_threadpool(read, start, offset)
            found, before = news.found, (start, offset)
            if news.start_id != start and start:
                yield ServerSentEvent(event="restart", id=f"{news.start_id}-0", data={"start": news.start_id})
            if found.skipped:
                begin = found.lines[0].offset if found.lines else found.position
                yield ServerSentEvent(event="skipped", id=f"{news.start_id}-{begin}", data={"bytes": found.skipped})
            start, offset = news.start_id, found.position
            if found.lines:
                yield _told(found.lines, f"{start}-{offset}", as_lines=as_lines)
            if as_lines and (found.unfinished != unfinished or (found.unfinished and found.lines)):
                unfinished = found.unfinished
                yield ServerSentEvent(event="unfinished", data=unfinished)
            # what comes in small pieces waits for the next tick: a log that never rests would be read without a pause
            more = news.ended or offset - before[1] >= AT_ONCE
            if before != (start, offset):
                spoken = time.monotonic()
        if time.monotonic() - spoken > QUIET_S:
            yield ServerSentEvent(comment="quiet")
            spoken = time.monotonic()


def _told(lines: Sequence[LogLine], event_id: str, *, as_lines: bool) -> ServerSentEvent:
    if as_lines:
        return ServerSentEvent(event="lines", id=event_id, data=[LogLineView.of(line).model_dump() for line in lines])
    return ServerSentEvent(event="log", id=event_id, data="".join(f"{line}\n" for line in lines))


def _log_position(last: str) -> tuple[int, int]:
    found = _POSITION.fullmatch(last)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)
