"""Waiting that ends when the worker does."""

import asyncio


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but not longer than until `stop`."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
