"""GPU memory as the driver counts it: a killed server's memory comes back seconds after its last process is gone.

A launch in that gap dies of want of memory, so an end is not over before the memory is back near its level before the launch,
or a limit is reached and it is said who holds it. Where no driver tells, nothing is known and nothing is waited for.
"""

import time
from collections.abc import Collection

from inference.backends.host import gpus

SLACK_MIB = 512
"""So much more than before the launch counts as given back: the driver's own share of a GPU varies a little."""

Levels = dict[str, int]
"""GPU UUID → MiB in use."""


def used_mib(uuids: Collection[str] | None = None) -> Levels | None:
    """What is in use, by whomever, on the GPUs named or on all; None where nobody can say. Blocks for a moment."""
    return gpus.levels(uuids)


def excess(before: Levels) -> Levels:
    """GPUs that hold more than before, and how many MiB; empty where all is given back, or nobody can say. Blocks."""
    return _more(before, used_mib(before) or {})


def wait_released(before: Levels, deadline_s: float, every_s: float = 0.25) -> str:
    """Wait until no GPU holds more than `before`, and say how that went, in one sentence. Blocks."""
    begun = time.monotonic()
    while True:
        used = used_mib(before)
        if used is None:  # the driver told before the launch, and does not now: nothing is claimed, nothing waited for
            why = " ".join(gpus.survey(max_age_s=5.0).notes) or "they no longer tell."
            return f"Whether its GPUs have their memory back cannot be seen: {why}"
        left = _more(before, used)
        if not left:
            return "GPU memory is back at its level before the launch."
        if time.monotonic() - begun >= deadline_s:
            return f"After {deadline_s:g} s {in_words(left)} more than before the launch, held by {_holders(left)}."
        time.sleep(every_s)


def in_words(levels: Levels) -> str:
    """`GPU 0 still holds 34,012 MiB, GPU 1 …`."""
    named = sorted((gpus.label_of(uuid), amount) for uuid, amount in levels.items())
    return ", ".join(f"{label} still holds {amount:,} MiB" for label, amount in named)


def _more(before: Levels, used: Levels) -> Levels:
    more = {uuid: amount - before[uuid] for uuid, amount in used.items()}
    return {uuid: amount for uuid, amount in more.items() if amount > SLACK_MIB}


def _holders(uuids: Collection[str]) -> str:
    named = [str(process) for gpu in gpus.list_gpus() if gpu.uuid in uuids for process in gpu.processes]
    return ", ".join(named[:5]) or "no process that the driver can name"
