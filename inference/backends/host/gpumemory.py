"""GPU memory as the driver counts it: a killed server's memory comes back seconds after its last process is gone.

A launch in that gap dies of want of memory, so an end is not over before the memory is back near its level before the launch,
or a limit is reached and it is said who holds it. Where there is no nvidia-smi, nothing is known and nothing is waited for.
"""

import shutil
import time

from inference.backends.host.process import ask_program

SLACK_MIB = 512
"""So much more than before the launch counts as given back: the driver's own share of a GPU varies a little."""

Levels = dict[int, int]
"""GPU index → MiB in use."""


def used_mib() -> Levels | None:
    """What is in use on each GPU, by whomever; None where nobody can say. Blocks for a moment."""
    rows = _ask("--query-gpu=index,memory.used")
    try:
        found = {int(index): int(used) for index, used in rows}
    except ValueError:  # a GPU that does not tell, such as one cut into instances
        return None
    return found or None


def excess(before: Levels) -> Levels:
    """GPUs that hold more than before, and how many MiB; empty where all is given back, or nobody can say."""
    more = {index: used - before.get(index, 0) for index, used in (used_mib() or {}).items()}
    return {index: amount for index, amount in more.items() if amount > SLACK_MIB}


def wait_released(before: Levels, deadline_s: float, every_s: float = 0.25) -> str:
    """Wait until no GPU holds more than `before`, and say how that went, in one sentence. Blocks."""
    begun = time.monotonic()
    while left := excess(before):
        if time.monotonic() - begun >= deadline_s:
            return f"After {deadline_s:g} s {in_words(left)} more than before the launch, held by {_holders()}."
        time.sleep(every_s)
    return "GPU memory is back at its level before the launch."


def in_words(levels: Levels) -> str:
    """`GPU 0 still holds 34,012 MiB, GPU 1 …`."""
    return ", ".join(f"GPU {index} still holds {amount:,} MiB" for index, amount in sorted(levels.items()))


def _holders() -> str:
    rows = _ask("--query-compute-apps=pid,used_memory,process_name")
    named = [f"pid {row[0]} ({row[-1]}, {row[1]} MiB)" for row in rows if len(row) >= 3]  # noqa: PLR2004  (the columns)
    return ", ".join(named[:5]) or "no process that nvidia-smi can name"


def _ask(query: str) -> list[list[str]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        code, said = ask_program([program, query, "--format=csv,noheader,nounits"], timeout_s=20.0)
    except OSError:
        return []
    return (
        [[cell.strip() for cell in line.split(",")] for line in said.splitlines() if line.strip()] if code == 0 else []
    )
