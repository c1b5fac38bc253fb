"""Why a server failed: the known failure that its log tells of, else what its end says.

Exit codes alone say little (SGLang ends itself with SIGKILL on every internal crash), so the log decides and the code is
the last resort.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.backends.logs.failures import KNOWN_FAILURES, Known

CONTEXT_LINES = 6
MAX_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What happened, what to do, the lines that say it; `permanent` means that a restart would end the same way."""

    code: str
    summary: str
    cure: str
    permanent: bool
    lines: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """For the backend's row."""
        return {"code": self.code, "summary": self.summary, "cure": self.cure, "lines": self.lines}


_TRACEBACK_END = re.compile(r"^(?:\[[^\]]*\] )?(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)|[A-Z]\w+Error)\b.*")
_HARMLESS = re.compile(r"Ignore import error|/v1/responses\) disabled")
"""Lines that speak of errors in every good start."""
_SHOWN_WHILE_ALIVE = frozenset({"disk_full", "gated_model", "hub_unreachable", "nccl", "port_in_use", "jit_build"})


_HANGING = tuple(known for known in KNOWN_FAILURES if known.code in _SHOWN_WHILE_ALIVE)
_HANGING_HINTS = ("Error", "rror ", "error:", "Errno", "space left", "connect", "retries", "offline", "restricted", "imeout", "in use", "ninja", "Ninja", "fatal")  # fmt: skip
"""A line without any of these tells of none of them: a test of substrings costs a hundredth of one of patterns."""


def diagnose(lines: Sequence[str], exit_code: int | None, *, ever_ready: bool, known_exit: bool = True) -> Diagnosis:
    """Why it ended.

    Args:
        lines: the end of its log, cleaned and redacted.
        exit_code: of the main process (negative: a signal); None where unknown.
        ever_ready: whether it had answered a real request before.
        known_exit: False for a server that was not our child, whose code nobody could collect.
    """
    found = search(lines)
    if found is not None:
        return found
    ended = _how(exit_code, known_exit=known_exit)
    shown = [line for line in lines if _HARMLESS.search(line) is None][-MAX_SHOWN:]
    if exit_code == 2 and not ever_ready:  # noqa: PLR2004  (argparse's)
        return Diagnosis(
            "bad_arguments", f"SGLang refused its arguments ({ended}).", "See the last lines.", True, shown
        )
    error = next((line for line in reversed(lines) if _TRACEBACK_END.match(line)), None)
    if exit_code == 1 and not ever_ready:
        summary = f"SGLang gave up before it was ready ({ended}){': ' + error[:300] if error else ''}."
        return Diagnosis("startup_error", summary, "See the lines; correct the launch.", True, shown)
    if exit_code == 0:
        return Diagnosis(
            "ended_itself", "The server shut down in order, but not because Draftmill asked.",
            "Somebody sent SIGTERM to it: see who, or stop it here instead.", False, shown,
        )  # fmt: skip
    if exit_code in {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT} or exit_code is None:
        return Diagnosis(
            "killed", f"The server was killed from outside ({ended}): its log ends without a word of it.",
            "Most often the kernel, for want of memory (see `dmesg`), or a person.", False, shown,
        )  # fmt: skip
    summary = f"The server ended ({ended}){': ' + error[:300] if error else ''}."
    return Diagnosis("crashed", summary, "See the lines.", False, shown)


def seen_while_alive(line: str) -> Diagnosis | None:
    """The known failure that this line tells of, if it is one that leaves the process hanging; cheap for all other lines."""
    if not any(hint in line for hint in _HANGING_HINTS):
        return None
    return _first([line], _HANGING)


def search(lines: Sequence[str]) -> Diagnosis | None:
    """The most telling known failure that the lines hold."""
    return _first(lines, KNOWN_FAILURES)


def _first(lines: Sequence[str], table: Sequence[Known]) -> Diagnosis | None:
    for known in table:
        for index, line in enumerate(lines):
            match = known.pattern.search(line)
            if match is None or _HARMLESS.search(line) is not None:
                continue
            groups = [group or "?" for group in match.groups()]
            summary, cure = known.summary.format(*groups), known.cure.format(*groups)
            return Diagnosis(known.code, summary, cure, known.permanent, _around(lines, index))
    return None


def _around(lines: Sequence[str], index: int) -> list[str]:
    start = max(0, index - CONTEXT_LINES + 1)
    shown = [line for line in lines[start : index + CONTEXT_LINES + 1] if _HARMLESS.search(line) is None]
    return [line[:600] for line in shown][-MAX_SHOWN:]


def _how(exit_code: int | None, *, known_exit: bool) -> str:
    if exit_code is None:
        return "exit code unknown" if known_exit else "exit code unknown: it was not our child any more"
    if exit_code < 0:
        try:
            return f"signal {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"signal {-exit_code}"
    return f"exit code {exit_code}"
