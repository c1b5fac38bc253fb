"""What a person reads while a server starts: one sentence from everything that is known, in coarse time steps."""

from collections.abc import Sequence
from datetime import datetime

from db.types import now
from inference.backends.host.identity import Member
from inference.backends.logs.phases import FIRED, GRAPHS, SPAWNED, WARMING
from inference.backends.server.readiness import Proof
from inference.backends.supervision.life import Life

QUIET_S = 120.0
"""A log that says nothing for longer is mentioned."""


def starting_sentence(life: Life, proof: Proof | None) -> str:
    """Where a start-up is, for how long, and what stands in its way."""
    tracker, phase = life.tracker, life.tracker.phase
    if tracker.part_died is not None:
        return "A part of it died while it was starting; SGLang is shutting itself down."
    if life.problem is not None:
        return f"Problem seen in the log while the process lives: {life.problem.summary} {life.problem.cure}"
    if proof is not None and proof.stranger:
        return f"Not ready: {proof.findings[-1].text}"
    if phase.name == FIRED and proof is not None and not proof.ready:
        return f"The log says ready, but it is not proven: {proof.findings[-1].text}"
    text = "importing SGLang's libraries" if phase.name == SPAWNED else str(phase)
    long = age(phase.since)
    sentence = f"{text[0].upper()}{text[1:]}{f' for {long}' if long else ''}."
    if (now() - tracker.last_line_at).total_seconds() > QUIET_S:
        reason = "; compiling kernels can take long" if phase.name in {WARMING, GRAPHS} else ""
        sentence += f" The log has been silent for {age(tracker.last_line_at)}{reason}."
    return sentence


def named(members: Sequence[Member]) -> str:
    """Processes, in words."""
    return ", ".join(map(str, members))


def age(since: datetime) -> str:
    """How long ago, in coarse steps, so that a sentence does not change with every look; empty below a minute."""
    minutes = int((now() - since).total_seconds() // 60)
    if minutes < 1:
        return ""
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"  # noqa: PLR2004  (two hours)
