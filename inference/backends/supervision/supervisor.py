"""The loop that brings every backend from what it is to what it should be. It lives in the worker, one per database.

The database holds what is desired; each backend has a keeper that looks and does one step, and says when it wants to look
again. The loop turns on a timer, and at once when a process ends or a check has an answer. A turn reads a few columns of each
row, and whole rows only of those that have changed: an idle supervisor costs next to nothing. When it stops it lets go of the
servers and leaves them running.
"""

import asyncio
import time
from typing import Protocol

import structlog
from sqlalchemy.exc import SQLAlchemyError

from db.tables import Backend
from inference.backends.supervision.attached import AttachedKeeper
from inference.backends.supervision.figures import FigureBook
from inference.backends.supervision.leftovers import Leftovers
from inference.backends.supervision.managed import ManagedKeeper
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.records import Records, Wish
from inference.backends.supervision.surroundings import Prober, Surroundings
from inference.context import Context

log = structlog.get_logger(__name__)


class Keeper(Protocol):
    """What keeps one backend."""

    next_look: float
    """When it wants to look again, monotonic; 0: at once"""

    async def step(self, row: Backend) -> None:
        """Look once, and do what is due."""

    async def close(self) -> None:
        """Let go; the server runs on."""


class Supervisor:
    """Supervises all backends of one database.

    Args:
        ctx: settings, database, tokenizers.
        policy: how patient; the defaults are for real servers.
        prober: makes the fidelity probe; the seam for tests.
    """

    def __init__(self, ctx: Context, policy: Policy | None = None, prober: Prober | None = None) -> None:
        self._policy = policy or Policy()
        self._records = Records(ctx.db)
        self._book = FigureBook(ctx.db)
        self._leftovers = Leftovers(ctx.db, ctx.settings)
        self._around = Surroundings(
            settings=ctx.settings,
            records=self._records,
            policy=self._policy,
            book=self._book,
            prober=prober or _default_prober(ctx),
            wake=self.wake,
        )
        self._keepers: dict[int, Keeper] = {}
        self._steps: dict[int, asyncio.Task[None]] = {}
        self._wishes: dict[int, Wish] = {}
        self._rows: dict[int, Backend] = {}
        self._faults: dict[int, str] = {}
        """{backend: what its last step failed of}, until one succeeds"""
        self._next_read = self._next_sweep = self._next_clean = 0.0
        self._sweep: asyncio.Task[None] | None = None
        self._awake = asyncio.Event()
        self._troubled = False
        """The database could not be read in the last turn"""

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; servers are left running, to be taken back by the next supervisor."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                self._awake.clear()  # before the turn: what happens during it deserves another
                await self._turn()
                awake = asyncio.create_task(self._awake.wait())
                await asyncio.wait({stopping, awake}, timeout=self._idle_s(), return_when=asyncio.FIRST_COMPLETED)
                awake.cancel()
        finally:
            stopping.cancel()
            await asyncio.gather(*self._steps.values(), return_exceptions=True)
            if self._sweep is not None:
                await asyncio.gather(self._sweep, return_exceptions=True)
            for keeper in self._keepers.values():
                await keeper.close()
            self._keepers.clear()

    def wake(self) -> None:
        """Have the loop turn now."""
        self._awake.set()

    def _idle_s(self) -> float:
        """Seconds until somebody wants a look; a keeper whose step is under way wakes the loop itself."""
        at = time.monotonic()
        looks = [k.next_look for number, k in self._keepers.items() if number not in self._steps or k.next_look > at]
        return max(0.0, min([self._next_read, *looks]) - at) if not self._troubled else self._policy.tick_s

    async def _turn(self) -> None:
        at = time.monotonic()
        try:
            if at >= self._next_read:
                await self._read_wishes()
                self._next_read = at + self._policy.tick_s
            due = [
                number
                for number in self._wishes
                if number not in self._steps and (number not in self._keepers or self._keepers[number].next_look <= at)
            ]
            await self._read_rows(due)
        except SQLAlchemyError as error:  # a database that is away for a while must not end the watch over servers
            log.warning("the backends cannot be read; trying again", error=str(error))
            self._troubled = True
            return
        self._troubled = False
        for number in due:
            if (row := self._rows.get(number)) is not None:
                self._steps[number] = asyncio.create_task(self._step(number, row))
        for gone in self._keepers.keys() - self._wishes.keys() - self._steps.keys():
            self._book.drop(gone)
            await self._keepers.pop(gone).close()
        await self._book.flush()
        self._look_for_leftovers(at)

    async def _read_wishes(self) -> None:
        """What is asked of each backend; whoever's changed is due at once, and its row is read anew."""
        wishes = {wish.id: wish for wish in await asyncio.to_thread(self._records.wishes)}
        for number, wish in wishes.items():
            if wish != self._wishes.get(number):
                self._rows.pop(number, None)
                if number in self._keepers:
                    self._keepers[number].next_look = 0.0
        for gone in self._rows.keys() - wishes.keys():
            del self._rows[gone]
        self._wishes = wishes

    async def _read_rows(self, due: list[int]) -> None:
        stale = [number for number in due if number not in self._rows or number in self._records.touched]
        if stale:
            rows = await asyncio.to_thread(self._records.backends, stale)
            self._rows |= {row.id: row for row in rows if row.id is not None}

    async def _step(self, number: int, row: Backend) -> None:
        """One step of one backend; a slow one (a stop, say) holds up no other."""
        keeper = self._keepers.get(number)
        if keeper is None:
            keeper = self._keepers[number] = self._new_keeper(number, row)
        wish, planned = self._wishes.get(number), time.monotonic() + self._policy.steady_look_s
        keeper.next_look = planned  # should the step fail
        try:
            await keeper.step(row)
        except SQLAlchemyError as error:
            log.warning("a backend could not be written; trying again", backend=row.name, error=str(error))
        except Exception as error:  # noqa: BLE001  (one backend's fault must not end the watch over the others)
            await self._tell_fault(number, row, error)
        else:
            self._faults.pop(number, None)
        finally:
            del self._steps[number]
            if self._wishes.get(number) != wish:  # something was asked while it looked elsewhere
                keeper.next_look = 0.0
            if keeper.next_look < planned or time.monotonic() >= planned:
                self.wake()

    async def _tell_fault(self, number: int, row: Backend, error: Exception) -> None:
        """A fault of our own: in the log once for each cause, and where people look, or they would read what no longer holds."""
        cause = f"{type(error).__name__}: {error}"
        if self._faults.get(number) == cause:
            return
        self._faults[number] = cause
        log.error("a step of a backend failed", backend=row.name, exc_info=error)
        message = (
            f"Draftmill failed while it looked after this server ({cause[:300]}), and tries again. The server itself was not "
            "touched; the worker's log has the details."
        )
        try:
            await asyncio.to_thread(self._records.write, number, message=message)
        except SQLAlchemyError as failed:
            log.warning("a fault could not be written down", backend=row.name, error=str(failed))

    def _new_keeper(self, number: int, row: Backend) -> Keeper:
        return ManagedKeeper(number, self._around) if row.kind == "managed" else AttachedKeeper(number, self._around)

    def _look_for_leftovers(self, at: float) -> None:
        """Now and then, and beside the steps: it reads all of /proc."""
        if (self._sweep is not None and not self._sweep.done()) or at < self._next_clean:
            return
        self._next_clean = at + self._policy.clean_s
        thoroughly = at >= self._next_sweep
        if thoroughly:
            self._next_sweep = at + self._policy.leftovers_s
        self._sweep = asyncio.create_task(self._swept(thoroughly=thoroughly))

    async def _swept(self, *, thoroughly: bool) -> None:
        try:
            await (self._leftovers.step() if thoroughly else self._leftovers.clean())
        except SQLAlchemyError as error:
            log.warning("leftovers could not be written; trying again", error=str(error))
        except Exception:
            log.exception("the search for leftovers failed")


def _default_prober(ctx: Context) -> Prober:
    from inference.backends.supervision.probing import (
        prober_of,  # brings the tokenizer libraries, which take a second to load
    )

    return prober_of(ctx)
