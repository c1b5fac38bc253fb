"""The loop that brings every backend from what it is to what it should be. It lives in the worker, one per data directory.

The database holds what is desired; each backend has a keeper that looks and does one step. The loop turns on a timer, and
at once when a process ends or a check has an answer. When it stops it lets go of the servers and leaves them running.
"""

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError

from db.tables import Backend
from inference.backends.supervision.attached import AttachedKeeper
from inference.backends.supervision.managed import ManagedKeeper
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.records import Records
from inference.backends.supervision.watching import Prober
from inference.context import Context

log = structlog.get_logger(__name__)

Keeper = ManagedKeeper | AttachedKeeper


class Supervisor:
    """Supervises all backends of one data directory.

    Args:
        ctx: settings, database, tokenizers.
        policy: how patient; the defaults are for real servers.
        prober: makes the fidelity probe; the seam for tests.
    """

    def __init__(self, ctx: Context, policy: Policy | None = None, prober: Prober | None = None) -> None:
        self._ctx = ctx
        self._policy = policy or Policy()
        self._prober = prober or _default_prober(ctx)
        self._records = Records(ctx.db)
        self._keepers: dict[int, Keeper] = {}
        self._steps: dict[int, asyncio.Task[None]] = {}
        self._awake = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; servers are left running, to be taken back by the next supervisor."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._turn()
                awake = asyncio.create_task(self._awake.wait())
                await asyncio.wait({stopping, awake}, timeout=self._policy.tick_s, return_when=asyncio.FIRST_COMPLETED)
                awake.cancel()
                self._awake.clear()
        finally:
            stopping.cancel()
            await asyncio.gather(*self._steps.values(), return_exceptions=True)
            for keeper in self._keepers.values():
                await keeper.close()
            self._keepers.clear()

    def wake(self) -> None:
        """Have the loop turn now."""
        self._awake.set()

    async def _turn(self) -> None:
        busy = set(self._steps)  # a row that was read while its step ran is stale by the time the step is over
        try:
            rows = await asyncio.to_thread(self._records.backends)
        except SQLAlchemyError as error:  # a database that is away for a while must not end the watch over servers
            log.warning("the backends cannot be read; trying again", error=str(error))
            return
        for row in rows:
            if row.id is not None and row.id not in busy:
                self._steps[row.id] = asyncio.create_task(self._step(row.id, row))
        for gone in self._keepers.keys() - {row.id for row in rows} - self._steps.keys():
            await self._keepers.pop(gone).close()

    async def _step(self, backend_id: int, row: Backend) -> None:
        """One step of one backend; a slow one (a stop, say) holds up no other."""
        keeper = self._keepers.get(backend_id)
        if keeper is None:
            keeper = self._keepers[backend_id] = self._new_keeper(backend_id, row)
        try:
            await keeper.step(row)
        except SQLAlchemyError as error:
            log.warning("a backend could not be written; trying again", backend=row.name, error=str(error))
        except Exception:  # one backend's fault must not end the watch over the others
            log.exception("a step of a backend failed", backend=row.name)
        finally:
            del self._steps[backend_id]

    def _new_keeper(self, backend_id: int, row: Backend) -> Keeper:
        if row.kind == "managed":
            return ManagedKeeper(backend_id, self._ctx.settings, self._records, self._policy, self._prober, self.wake)
        return AttachedKeeper(backend_id, self._records, self._policy, self._prober, self.wake)


def _default_prober(ctx: Context) -> Prober:
    from inference.backends.supervision.probing import (
        prober_of,  # brings the tokenizer libraries, which take a second to load
    )

    return prober_of(ctx)
