"""One request for one sample: what is sent, what came back, and what that means for the sample and its backend."""

import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from db.types import now
from inference.backends.server.client import GenerateError, Generation
from inference.runs.lanes import Lane
from inference.runs.outcomes import Ending, Outcome, Work
from inference.runs.settings import MIN_BUDGET, RunSettings, merged_sampling, sampling_request, seed_for
from inference.runs.verification import verify

TRIED_AGAIN: Final = frozenset({"timeout", "aborted", "server", "malformed"})
"""Causes that may pass: each costs an attempt, and the run's `tries` bounds them"""

MAX_SERVERS_LOST: Final = 5
"""A sample that was in flight at so many deaths of a server is taken for their cause"""


@dataclass(slots=True)
class Ask:
    """A request ready to go. `differs` is what differs from the run's own sampling, to be kept with the attempt."""

    sampling: dict[str, Any]
    differs: dict[str, Any]
    rid: str
    refusal: str | None = None
    """A sentence where the prompt does not fit this server"""


def ask_for(work: Work, lane: Lane, settings: RunSettings, change: dict[str, Any]) -> Ask:
    """Sampling with the sample's own seed and a budget that fits the server; a lowered budget is recorded.

    Args:
        work: the sample.
        lane: the backend that is to answer.
        settings: the run's.
        change: what a regenerate changed of the sampling, {} for nothing.
    """
    sampling = merged_sampling(settings.sampling, change) if change else settings.sampling
    differs = dict(change)
    sent = sampling_request(sampling)
    sent["sampling_seed"] = seed_for(settings.seed, work.prompt_id, work.turn, work.repeat, work.number)
    differs["sampling_seed"] = sent["sampling_seed"]
    wanted = int(sent["max_new_tokens"])
    context = min(settings.context_length, lane.facts.context_length or settings.context_length)
    longest = min(settings.max_prompt_tokens, (lane.facts.max_input or settings.max_prompt_tokens + 1) - 1)
    size = len(work.prompt_ids)
    room = context - size
    if size > longest or room < min(wanted, MIN_BUDGET):
        return Ask(
            sent,
            differs,
            "",
            f"The prompt has {size:,} tokens; with a context of {context:,} at most {longest:,} can be sent and an answer "
            f"needs at least {min(wanted, MIN_BUDGET)}.",
        )
    if room < wanted:
        sent["max_new_tokens"] = differs["max_new_tokens"] = room
        if int(sent.get("min_new_tokens", 0)) > room:
            sent["min_new_tokens"] = differs["min_new_tokens"] = room
    return Ask(sent, differs, fresh_rid())


def fresh_rid() -> str:
    """A request id for one attempt: 128 random bits, always 32 hex digits, so that none is the prefix of another.

    Not from the system's generator, whose call lets go of the interpreter lock; nothing secret hangs on it.
    """
    return f"{random.getrandbits(128):032x}"


async def send(work: Work, lane: Lane, ask: Ask, settings: RunSettings, ticket: int) -> Outcome | GenerateError:
    """Send and verify, and tell the lane's breaker, whose `ticket` this request has.

    A GenerateError comes back only where it is the backend's affair and no attempt was spent.
    """
    started_at, clock = now(), time.perf_counter()
    try:
        answer = await lane.connection.client.generate(
            work.prompt_ids, ask.sampling, ask.rid, timeout_s=settings.timeout_s
        )
    except GenerateError as error:
        judge(lane, error, ticket)
        cut_off = error.kind == "aborted" and not lane.usable  # a server that is being stopped ends what is in flight
        if cut_off or error.kind in {"connection", "busy", "unauthorized"}:
            return error
        if error.kind == "timeout":
            await lane.connection.client.abort(error.rid or ask.rid)
        ending = Ending.TRIED if error.kind in TRIED_AGAIN else Ending.FAILED
        code = _code(error)
        outcome = _outcome(work, lane, ask, ending, time.perf_counter() - clock)
        outcome.error_code, outcome.error = code, error.message
        outcome.prompt_tokens = len(work.prompt_ids)
        return outcome
    lane.connection.breaker.succeeded(ticket)
    refusal = verify(
        work.prompt_ids,
        answer,
        vocab_size=settings.vocab_size,
        weight_versions=lane.weight_versions,
        echo_due=lane.echoes,
    )
    ending = Ending.DONE if refusal is None else Ending.TRIED
    outcome = _outcome(work, lane, ask, ending, time.perf_counter() - clock)
    outcome.started_at = started_at
    if refusal is not None:
        outcome.error_code, outcome.error = refusal.code, refusal.message
    _take_over(outcome, answer)
    return outcome


def judge(lane: Lane, error: GenerateError, ticket: int) -> None:
    """What a request without an answer says of the server: nothing, where the request itself was at fault."""
    breaker = lane.connection.breaker
    if error.kind == "unauthorized":
        lane.connection.refused = f"Backend {lane.name} refuses our key: {error.message}"
        breaker.dropped(ticket)
    elif error.kind == "busy":
        breaker.busy(error.message, ticket)
    elif error.kind == "rejected" or error.code == "nan":  # it answered; the fault is the request's, or the model's
        breaker.refused(ticket)
    elif error.kind == "aborted":
        breaker.dropped(ticket)
    else:
        breaker.failed(error.message, ticket)


def _code(error: GenerateError) -> str:
    if error.code == "nan":
        return "nan_output"
    return error.code or {"rejected": "rejected", "server": "server_error"}.get(error.kind, error.kind)


def _outcome(work: Work, lane: Lane, ask: Ask, ending: Ending, seconds: float) -> Outcome:
    ended = now()
    return Outcome(
        work=work,
        ending=ending,
        started_at=ended - timedelta(seconds=seconds),
        finished_at=ended,
        number=work.number,
        sampling=ask.differs,
        backend_id=lane.backend_id,
        backend_start_id=lane.start_id,
        rid=ask.rid,
        latency_s=round(seconds, 4),
        weight_version=next(iter(lane.weight_versions)) if len(lane.weight_versions) == 1 else None,
    )


def _take_over(outcome: Outcome, answer: Generation) -> None:
    outcome.output_ids = answer.output_ids
    outcome.finish_reason = answer.finish_type
    outcome.finish_matched = answer.finish_matched
    outcome.prompt_tokens = answer.prompt_tokens
    outcome.completion_tokens = answer.completion_tokens
    outcome.cached_tokens = answer.cached_tokens
    outcome.weight_version = answer.weight_version
    outcome.rid = answer.rid


def unsent(work: Work, ending: Ending, code: str | None = None, message: str | None = None) -> Outcome:
    """The end of a sample that was never sent."""
    at = now()
    return Outcome(
        work=work,
        ending=ending,
        started_at=at,
        finished_at=at,
        number=work.number,
        error_code=code,
        error=message,
        prompt_tokens=len(work.prompt_ids) or None,
    )
