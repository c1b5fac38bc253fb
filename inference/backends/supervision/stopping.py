"""An ordered end: SIGTERM to the main process, a deadline that people see, an abort of what is still in flight, SIGKILL.

SIGTERM alone drains without limit. Before a server is ready it leaves orphans that go on loading, so there the whole group
is killed at once.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta

from db.types import now
from inference.backends.host.process import wait_gone
from inference.backends.server.client import GenerateError
from inference.backends.supervision.life import Life, Stopping
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.sentences import named


async def begin_stop(life: Life, policy: Policy, reporter: Reporter, wake: Callable[[], None]) -> None:
    """Begin; `life.stopping` is set from here on."""
    await life.drop_tasks()
    stopping = life.stopping = Stopping(time.monotonic(), "SIGTERM")
    at = now()
    if not life.ever_ready:
        stopping.how, stopping.killed = "killed while it was starting", True
        message = "Stopping: it has not been ready yet, so its whole process group is killed."
        await reporter.report("stopping", message, start_id=life.start_id, start={"stopping_at": at})
        await asyncio.to_thread(wait_gone, life.process, policy.kill_deadline_s)
        wake()
        return
    life.process.terminate()
    until = at + timedelta(seconds=policy.stop_deadline_s)
    message = f"Draining: requests in flight may finish until {until:%H:%M:%S} UTC, then they are cut off."
    await reporter.report("draining", message, start_id=life.start_id, start={"stopping_at": at})


async def go_on_stopping(life: Life, stopping: Stopping, policy: Policy, reporter: Reporter) -> None:
    """One step on the way, while the main process lives."""
    elapsed = time.monotonic() - stopping.since
    if stopping.killed or elapsed > policy.stop_deadline_s:
        if not stopping.killed:
            stopping.killed = True
            stopping.how = f"SIGKILL, since it did not end within {policy.stop_deadline_s:g} s of SIGTERM"
            await reporter.report("stopping", "Stopping: the deadline is over, the process tree is killed.")
        left = await asyncio.to_thread(wait_gone, life.process, policy.kill_deadline_s)
        if left:
            await reporter.report("stopping", f"Stopping: {named(left)} will not die (killed, but held by the kernel).")
    elif elapsed > policy.abort_after_s and not stopping.aborted:
        stopping.aborted = True
        life.task(_abort_all(life))
        await reporter.report("stopping", "Stopping: requests still in flight are aborted.")
    elif life.tracker.drained_to == 0 and not stopping.aborted:
        await reporter.report("stopping", "Stopping: nothing is in flight any more; the process is about to end.")


async def _abort_all(life: Life) -> None:
    with contextlib.suppress(GenerateError):  # the deadline is near: what this does not end, SIGKILL will
        await life.client.call("POST", "/abort_request", {"rid": "", "abort_all": True}, timeout_s=5.0)
