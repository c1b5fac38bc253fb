"""An ordered end: requests in flight finish until a deadline that people see, then SIGTERM to the main process, then SIGKILL.

While it drains nothing is sent to the server: SIGTERM would make SGLang drain too, but without limit, and it would still take
new requests. Before a server is ready SIGTERM leaves orphans that go on loading, so there the whole group is killed at once,
as it is where a person asks for that. One that does not answer is not drained: it would not.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from db.tables import Backend
from db.types import now
from inference.backends.host.process import wait_gone
from inference.backends.server.client import GenerateError
from inference.backends.server.loads import read_figures
from inference.backends.supervision.life import Life, Stopping
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.sentences import named

QUIET_LOOKS = 2
"""So many looks in a row must find nothing in flight: one may fall between a request's coming and its being counted."""

TOKENS_S = 1.0
"""Tokens that flowed so lately are requests in flight, whatever the figures say."""


class Ending:
    """The end of one life, step by step.

    Args:
        life: whose; `life.stopping` is set once it has begun.
        policy: how patient.
        reporter: says how far it is.
        wake: called when the next step is due at once.
    """

    def __init__(self, life: Life, policy: Policy, reporter: Reporter, wake: Callable[[], None]) -> None:
        self._life = life
        self._policy = policy
        self._reporter = reporter
        self._wake = wake

    async def begin(self, row: Backend) -> None:
        """Begin; `life.stopping` is set from here on."""
        life = self._life
        await life.drop_tasks()
        stopping = life.stopping = Stopping(time.monotonic(), "SIGTERM")
        if row.kill_requested:
            await self._kill(stopping, "killed, as was asked", "Stopping: it is killed, as was asked.")
        elif not life.ever_ready:
            text = "Stopping: it has not been ready yet, so its whole process group is killed."
            await self._kill(stopping, "killed while it was starting", text)
        elif row.observed_state == "unresponsive" or life.pulse.died is not None:
            await self._terminate(stopping, "Stopping: it does not answer, so there is nothing to wait for")
        elif not life.expected.serves:
            await self._terminate(stopping, "Stopping: a part of a server has no requests of its own")
        else:
            stopping.drain_until = time.monotonic() + life.drain_limit_s
            stopping.deadline_at = now() + timedelta(seconds=life.drain_limit_s)
            at = stopping.deadline_at
            text = f"Draining: requests in flight may finish until {at:%H:%M:%S} UTC, then they are cut off."
            await self._say("draining", text)
            self._wake()

    async def resume(self, row: Backend) -> None:
        """Take up what an earlier supervisor had begun: a drain until the same deadline, else SIGTERM again, which does no harm."""
        how = "SIGTERM, begun before Draftmill was restarted"
        stopping = self._life.stopping = Stopping(time.monotonic(), how, noted=True)
        left = (row.deadline_at - now()).total_seconds() if row.deadline_at is not None else 0.0
        if row.observed_state == "draining" and left > 0:
            stopping.drain_until, stopping.deadline_at = time.monotonic() + left, row.deadline_at
        else:
            await self._terminate(stopping, "Stopping: it was being stopped when Draftmill was restarted")

    async def go_on(self, row: Backend, stopping: Stopping) -> None:
        """One step on the way, while the main process lives."""
        at = time.monotonic()
        if stopping.killed or (row.kill_requested and self._life.process.alive()):
            if not stopping.killed:
                await self._kill(stopping, "killed, as was asked", "Stopping: it is killed, as was asked.")
            else:
                await self._kill_again()
        elif stopping.kill_at is None:
            await self._drain(stopping, at)
        elif at >= stopping.kill_at:
            how = f"SIGKILL, since it did not end within {self._policy.kill_after_s:g} s of SIGTERM"
            await self._kill(stopping, how, "Stopping: the deadline is over, the process tree is killed.")

    async def _drain(self, stopping: Stopping, at: float) -> None:
        life, policy = self._life, self._policy
        if at >= (stopping.drain_until or 0.0):
            await self._abort_all()
            stopping.how = f"SIGTERM after {life.drain_limit_s:g} s, with the requests still in flight cut off"
            await self._terminate(stopping, "Stopping: the time for requests in flight is over, they are aborted")
            return
        if at < stopping.next_look:
            return
        stopping.next_look = at + policy.drain_look_s
        reading = await read_figures(life.client)
        if life.stopping is not stopping or not life.process.alive():
            return
        if reading is None or reading.running is None:
            await self._terminate(
                stopping,
                "Stopping: it does not tell what is in flight, so it drains by itself",
                extra_s=life.drain_limit_s,
            )
            return
        tokens_at = life.tracker.last_tokens_at
        flowing = tokens_at is not None and (now() - tokens_at).total_seconds() < TOKENS_S
        in_flight = reading.running + (reading.queued or 0)
        stopping.quiet = 0 if in_flight or flowing else stopping.quiet + 1
        if stopping.quiet >= QUIET_LOOKS:
            await self._terminate(stopping, "Stopping: nothing is in flight any more")
        elif in_flight and stopping.deadline_at is not None:
            requests = "1 request" if in_flight == 1 else f"{in_flight} requests"
            text = f"Draining: {requests} in flight may finish until {stopping.deadline_at:%H:%M:%S} UTC, then they are cut off."
            await self._say("draining", text)

    async def _terminate(self, stopping: Stopping, why: str, extra_s: float = 0.0) -> None:
        patience = self._policy.kill_after_s + extra_s
        stopping.drain_until, stopping.kill_at = None, time.monotonic() + patience
        stopping.deadline_at = now() + timedelta(seconds=patience)
        self._life.process.terminate()
        text = f"{why}. SIGTERM was sent; what lives at {stopping.deadline_at:%H:%M:%S} UTC is killed."
        await self._say("stopping", text)

    async def _kill(self, stopping: Stopping, how: str, text: str) -> None:
        stopping.how, stopping.killed, stopping.deadline_at = how, True, None
        await self._say("stopping", text)
        await self._kill_again()
        self._wake()

    async def _kill_again(self) -> None:
        await asyncio.to_thread(self._life.remember)
        left = await asyncio.to_thread(wait_gone, self._life.process, self._policy.kill_deadline_s)
        if left:
            await self._say("stopping", f"Stopping: {named(left)} will not die (killed, but held by the kernel).")

    async def _abort_all(self) -> None:
        with contextlib.suppress(GenerateError):  # what this does not end, SIGTERM and then SIGKILL will
            await self._life.client.call("POST", "/abort_request", {"rid": "", "abort_all": True}, timeout_s=5.0)

    async def _say(self, state: str, message: str) -> None:
        stopping = self._life.stopping
        columns: dict[str, Any] = {}
        if stopping is not None and not stopping.noted:
            stopping.noted = True
            columns = {"start_id": self._life.start_id, "start": {"stopping_at": now()}}
        deadline = stopping.deadline_at if stopping is not None else None
        await self._reporter.report(state, message, deadline_at=deadline, **columns)
