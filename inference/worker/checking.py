"""The loop that does what is done behind the runs, and gives way to the runners.

Python's threads share one interpreter, so a lower priority of the thread would not help (one that holds the interpreter and
gets no processor holds up all others): the loop rests instead, the longer the more the rest of the worker has to do.
"""

import asyncio
import threading
import time
from concurrent.futures import Executor
from typing import Final

import structlog

from inference.context import Context
from inference.runs.behind.step import Behind
from inference.runs.writer import DISK_ERRORS
from inference.worker.pausing import pause

log = structlog.get_logger(__name__)

IDLE_S: Final = 0.5
AGAIN_S: Final = 2.0
BUSY: Final = 0.25
"""Share of a core: a worker that uses so much beside us is taken for fully busy"""
LONGEST_REST: Final = 20.0
"""Times the work: how long to rest beside a fully busy worker"""
LONGEST_REST_S: Final = 60.0


async def check_loop(ctx: Context, stop: asyncio.Event, executor: Executor) -> None:
    """Until `stop`: a piece of work in a thread, then a rest."""
    loop = asyncio.get_running_loop()
    halt = threading.Event()
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda _: halt.set())
    behind, meter = Behind(ctx), Meter()
    try:
        while not stop.is_set():
            try:
                worked, cpu = await loop.run_in_executor(executor, _timed, behind, halt)
            except DISK_ERRORS as error:
                log.warning("checks_interrupted", error=str(error))
                await pause(stop, AGAIN_S)
                continue
            await pause(stop, rest_after(cpu, meter.others(cpu)) if worked else IDLE_S)
    finally:
        stopping.cancel()


def _timed(behind: Behind, halt: threading.Event) -> tuple[bool, float]:
    """(whether there was anything to do, CPU seconds it took)."""
    began = time.thread_time()
    worked = behind.step(halt)
    return worked, time.thread_time() - began


class Meter:
    """What the rest of this process uses, in cores, between two readings."""

    def __init__(self) -> None:
        self._at, self._cpu = time.monotonic(), time.process_time()

    def others(self, own: float) -> float:
        """Cores used since the last reading by all but us, who used `own` CPU seconds."""
        at, cpu = time.monotonic(), time.process_time()
        span = max(at - self._at, 1e-6)
        share = max(0.0, cpu - self._cpu - own) / span
        self._at, self._cpu = at, cpu
        return share


def rest_after(cpu: float, others: float) -> float:
    """Seconds to rest after so many CPU seconds of work, where the rest of the process uses so many cores: none beside an idle one."""
    return min(cpu * LONGEST_REST * min(1.0, others / BUSY), LONGEST_REST_S)
