"""The end of a server: clear away what it left, prove that it is gone, say why, and decide what comes next."""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from db.tables import Backend
from db.types import now
from inference.backends.host.gpumemory import excess, in_words, wait_released
from inference.backends.host.identity import Member
from inference.backends.host.litter import sweep
from inference.backends.host.process import wait_gone
from inference.backends.launch.ports import holder, is_free
from inference.backends.logs.diagnosis import Diagnosis, diagnose
from inference.backends.supervision.life import OURS, Life
from inference.backends.supervision.policy import Policy
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.sentences import named

PORT_FREE_S = 5.0


@dataclass(frozen=True, slots=True)
class End:
    """What is known once the main process is gone. `left`: members of the tree that will not die; `found`: why, by its log."""

    left: list[Member]
    exit_code: int | None
    found: Diagnosis
    proof: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the row is to say."""

    state: str
    message: str
    columns: dict[str, Any] = field(default_factory=dict)


REBOOTED = Diagnosis(
    "machine_restarted",
    "The machine or its container was restarted, and the server went with it.",
    "Nothing of the launch need be changed.",
    permanent=False,
)


async def clear_away(life: Life, policy: Policy, reporter: Reporter) -> End:
    """Kill what is left of the tree, collect the exit code, read the log's end, check the port, wait for the GPU memory."""
    left = await asyncio.to_thread(wait_gone, life.process, policy.kill_deadline_s)
    exit_code = life.process.reap()
    await asyncio.to_thread(life.read_log)
    found = await asyncio.to_thread(_found, life, exit_code)
    proof = await asyncio.to_thread(_proof, life, left)
    if life.gpu_before is not None and not left:
        more = await asyncio.to_thread(excess, life.gpu_before)
        if more:
            message = f"Stopping: its processes are gone, but {in_words(more)} more than before the launch."
            await reporter.report("stopping", message)
        proof += " " + await asyncio.to_thread(wait_released, life.gpu_before, policy.memory_deadline_s)
    if not left:
        await asyncio.to_thread(sweep, life.process.marker)
    return End(left, exit_code, found, proof)


def after_stop(life: Life, end: End) -> Outcome:
    """An end that was asked for."""
    code = f"exit code {end.exit_code}" if end.exit_code is not None else "exit code unknown (not our child)"
    how, took = "it ended", ""
    if life.stopping is not None:
        how, took = life.stopping.how, f" after {time.monotonic() - life.stopping.since:.1f} s"
    message = f"Stopped: {how}; {code}{took}. {end.proof}"
    return Outcome("stopped", message, {**_ended(life, end, message), "crashes": 0, "retry_at": None, "phase": None})


def after_crash(row: Backend, life: Life, end: End, policy: Policy) -> Outcome:
    """An end that nobody asked for: restart after a wait, or failed where that is senseless or was tried enough."""
    found = _known_reason(life) or end.found
    summary = f"While Draftmill was away: {found.summary}" if life.while_away else found.summary
    error = {**found.to_json(), "summary": summary}
    columns = {**_ended(life, end, summary, error), "error": error, "retry_at": None}
    if row.desired_state != "running":
        return Outcome("stopped", f"Stopped: {summary} {end.proof}", {**columns, "crashes": 0})
    crashes = 1 if _was_steady(life, policy) else row.crashes + 1
    columns["crashes"] = crashes
    senseless = found.permanent and not life.ever_ready
    if senseless or crashes > len(policy.backoff_s):
        why = f"Failed: {summary} {found.cure}" if senseless else f"Failed after {crashes} crashes in a row: {summary}"
        return Outcome("failed", f"{why} {end.proof}", columns)
    wait = policy.backoff_s[crashes - 1]
    columns["retry_at"] = now() + timedelta(seconds=wait)
    message = f"Crashed: {summary} {end.proof} Restart {crashes} of {len(policy.backoff_s)} in {wait:g} s."
    return Outcome("backoff", message, columns)


def startup_limit(life: Life) -> Diagnosis | None:
    """The user's limit for a start-up, where it is over. Reads the log."""
    if life.limit_s is None or time.monotonic() - life.since <= life.limit_s:
        return None
    return Diagnosis(
        "startup_limit",
        f"Not ready within the {life.limit_s:g} s of launch.startup_limit_s; the last stage was: {life.tracker.phase}.",
        "See the end of the log; raise the limit if this model takes longer.",
        permanent=True,
        lines=life.log_end()[-6:],
    )


def _found(life: Life, exit_code: int | None) -> Diagnosis:
    """Reads the log; some tenths of a second where many ranks wrote much."""
    return diagnose(life.log_end(), exit_code, ever_ready=life.ever_ready, known_exit=life.process.is_child)


def _known_reason(life: Life) -> Diagnosis | None:
    if life.rebooted:
        return REBOOTED
    return life.problem if life.problem is not None and life.problem.code in OURS else None


def _was_steady(life: Life, policy: Policy) -> bool:
    return life.ready_since is not None and time.monotonic() - life.ready_since > policy.steady_s


def _ended(life: Life, end: End, ending: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
    """Once this is written the start's ports are free for others, so nothing may be left of it."""
    start = {"ended_at": now(), "exit_code": end.exit_code, "ending": ending, "error": error}
    return {"start_id": life.start_id, "start": {**start, "phases": life.tracker.history()}, "kill_requested": False}


def _proof(life: Life, left: list[Member]) -> str:
    if left:
        return f"Still there, and will not die: {named(left)}."
    deadline = time.monotonic() + PORT_FREE_S
    while not is_free(life.port) and time.monotonic() < deadline:
        time.sleep(0.05)
    if is_free(life.port):
        return f"No process of its tree is left and port {life.port} is free."
    return f"No process of its tree is left; port {life.port} is held by {holder(life.port)}, which is not ours."
