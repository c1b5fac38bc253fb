"""The worker's loops: runners for the runs, a writer for the exports, the checks behind the runs, the supervisor.

The database is looked at four times a second and says what is to be done; nothing is sent to the worker in any other way, so
an order given while it was down is simply found when it is up again.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final

import structlog
from sqlmodel import col, select

from db.tables import Export
from inference.backends.supervision.supervisor import Supervisor
from inference.context import Context
from inference.export.service import forget_orphans, write_export
from inference.runs import runstate
from inference.runs.pool import ClientPool
from inference.runs.runner import Runner
from inference.runs.writer import DISK_ERRORS
from inference.worker.checking import check_loop
from inference.worker.pausing import pause

log = structlog.get_logger(__name__)

LOOK_S: Final = 0.25
EXPORTS_S: Final = 0.5
AGAIN_S: Final = 2.0
"""How long to wait before something that broke down is tried again"""


async def work(ctx: Context, stop: asyncio.Event, executor: Executor) -> None:
    """Everything a worker does, until `stop` is set; then what is finished is written and the servers are left running."""
    recovered = await asyncio.get_running_loop().run_in_executor(executor, runstate.recover_all, ctx)
    if recovered:
        log.info("recovered", samples=recovered)
    await asyncio.gather(
        _kept_up("supervisor", stop, lambda: Supervisor(ctx).run(stop)),
        _kept_up("runs", stop, lambda: run_loop(ctx, stop, executor)),
        _kept_up("exports", stop, lambda: export_loop(ctx, stop, executor)),
        _kept_up("checks", stop, lambda: check_loop(ctx, stop, executor)),
    )


async def run_loop(ctx: Context, stop: asyncio.Event, executor: Executor) -> None:
    """A runner for each active run."""
    loop = asyncio.get_running_loop()
    pool = ClientPool()
    runners: dict[int, asyncio.Task[None]] = {}
    try:
        while not stop.is_set():
            try:
                active = await loop.run_in_executor(executor, runstate.active_runs, ctx)
            except DISK_ERRORS as error:
                log.warning("runs_not_read", error=str(error))
                active = []
            runners = {run_id: task for run_id, task in runners.items() if not task.done()}
            for run_id in active:
                if run_id not in runners:
                    runners[run_id] = asyncio.create_task(_one_run(ctx, run_id, pool, executor, stop))
            await pool.prune()
            await pause(stop, LOOK_S)
        await asyncio.gather(*runners.values())
    finally:
        for task in runners.values():
            task.cancel()
        await asyncio.gather(*runners.values(), return_exceptions=True)
        await pool.aclose()


async def _one_run(ctx: Context, run_id: int, pool: ClientPool, executor: Executor, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    log.info("run_taken_up", run_id=run_id)
    try:
        await Runner(ctx, run_id, pool, executor).run(stop)
    except runstate.RunBroken as error:
        log.warning("run_broken", run_id=run_id, error=str(error))
        await loop.run_in_executor(executor, runstate.broken, ctx, run_id, str(error))
    except DISK_ERRORS as error:
        log.warning("run_interrupted", run_id=run_id, error=str(error))
        await pause(stop, AGAIN_S)
    except Exception as error:
        log.exception("runner_broke_down", run_id=run_id)
        reason = f"The runner broke down: {error!r}. The worker's log has the details; resume to try again."
        try:
            await loop.run_in_executor(executor, runstate.stop_for, ctx, run_id, "error", reason, {})
        except DISK_ERRORS:
            log.warning("pause_not_written", run_id=run_id)
        await pause(stop, AGAIN_S)
    else:
        log.info("run_left", run_id=run_id)


async def export_loop(ctx: Context, stop: asyncio.Event, executor: Executor) -> None:
    """Exports, one after the other; one that a dead worker left half written is written anew."""
    loop = asyncio.get_running_loop()
    halt = threading.Event()
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda _: halt.set())
    try:
        await loop.run_in_executor(executor, forget_orphans, ctx)
        while not stop.is_set():
            for export_id in await loop.run_in_executor(executor, _waiting_exports, ctx):
                log.info("export_taken_up", export_id=export_id)
                await loop.run_in_executor(executor, write_export, ctx, export_id, halt)
            await pause(stop, EXPORTS_S)
    finally:
        stopping.cancel()


def _waiting_exports(ctx: Context) -> list[int]:
    """Those queued, and those whose writer died, oldest first."""
    with ctx.db.read() as s:
        query = select(col(Export.id)).where(col(Export.state).in_(("queued", "writing"))).order_by(col(Export.id))
        return [number for number in s.exec(query).all() if number is not None]


async def _kept_up(name: str, stop: asyncio.Event, make: Callable[[], Awaitable[None]]) -> None:
    """Run it, and run it again where it broke down: one part's trouble is not the others' end."""
    while not stop.is_set():
        try:
            await make()
        except Exception:
            log.exception("part_broke_down", part=name)
            await pause(stop, AGAIN_S)
