"""What waits in the worker, as for the end of a server, holds up nothing else there."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from inference.worker import __main__ as worker

SERVERS = 48
"""More ends at once than any machine has cores for"""


def test_many_servers_that_end_at_once_leave_threads_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def work(_ctx: object, stop: asyncio.Event, _executor: object) -> None:
        ending = threading.Event()
        ends = [asyncio.create_task(asyncio.to_thread(ending.wait, 10)) for _ in range(SERVERS)]
        await asyncio.sleep(0)  # they wait by now, or for a thread
        seen.append(await asyncio.to_thread(lambda: "still waiting" if not ending.is_set() else "over"))
        ending.set()
        assert all(await asyncio.gather(*ends)), "the others were looked at only after an end had been given up"
        stop.set()

    monkeypatch.setattr(worker, "work", work)
    told = SimpleNamespace(when_gone=lambda _: None, when_lost=lambda _: None)
    with ThreadPoolExecutor(1) as executor:
        asyncio.run(worker._until_told(None, told, told, executor))
    assert seen == ["still waiting"]
