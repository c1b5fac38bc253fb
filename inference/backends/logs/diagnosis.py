"""Why a server failed: the known failure that its log tells of, else what its end says.

Exit codes alone say little (SGLang ends itself with SIGKILL on every internal crash), so the log decides and the code is
the last resort.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from inference.backends.logs.endings import Ending, by_exit_code
from inference.backends.logs.failures import KNOWN_FAILURES
from inference.backends.logs.known.failure import Known

AFTER = 6
"""Lines shown below the one that tells."""

MAX_SHOWN = 12
MAX_LINE = 600
MAX_GROUP = 200
"""Characters of a piece of the log in a sentence; argparse lists every choice there is."""

BLOCK_LINES = 40
"""So far above the telling line the beginning of its block is looked for."""

WORK_SINCE = 100
"""So many batches after a line say that it ended nothing: the other ranks of a dying server come to fewer."""

_TRACEBACK_END = re.compile(r"^(?:\[[^\]]*\] )?(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)|[A-Z]\w+Error)\b.*")
_BATCH = re.compile(r"\b(?:Prefill|Decode) batch\b")
_NOT_READ = re.compile(
    r"Ignore import error|/v1/responses\) disabled"  # speak of errors in every good start
    r"|server_args=|HTTP/\d\.\d\" \d{3}|\b(?:Prefill|Decode) batch\b|remaining_rids="
    r"|\[http_server\] Error:|\b(?:Receive|Finish)(?: OpenAI)?: obj="  # a client's request, in the client's words
)
"""Lines in which no failure is looked for, and which are not shown."""

_FRAME = re.compile(r" +(?:File \"|[~^]+$)")
"""Where a traceback was, not what it says: most lines of a crash of many ranks."""


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


_HANGING = tuple(known for known in KNOWN_FAILURES if known.hangs)
_HANGING_HINTS = (
    "Error", "rror ", "error:", "Errno", "space left", "connect", "retries", "offline", "restricted", "imeout", "in use",
    "inja", "fatal", "gated", "NotFound", "Not Found", "not a local", "quota", "free disk", "shared memory", "out after",
    "trust_remote", "custom code", "execute the", "resolution", "nccl", "nvcc", "CUDA_HOME", "Too Many", "size", "timed out",
)  # fmt: skip
"""A line without any of these tells of none of them: a test of substrings costs a hundredth of one of patterns."""


def diagnose(lines: Sequence[str], exit_code: int | None, *, ever_ready: bool, known_exit: bool = True) -> Diagnosis:
    """Why it ended.

    Args:
        lines: the end of its log, cleaned and redacted.
        exit_code: of the main process (negative: a signal); None where unknown.
        ever_ready: whether it had answered a real request before.
        known_exit: False for a server that was not our child, whose code nobody could collect.
    """
    found = search(lines, ever_ready=ever_ready)
    if found is not None:
        return found
    ending = Ending(exit_code, known_exit, ever_ready, last_error(lines), lines)
    code, summary, cure, permanent = by_exit_code(ending)
    shown = [line[:MAX_LINE] for line in lines if _NOT_READ.search(line) is None][-MAX_SHOWN:]
    return Diagnosis(code, summary, cure, permanent, shown)


def seen_while_alive(line: str) -> Diagnosis | None:
    """The known failure that this line tells of, if it is one that leaves the process hanging; cheap for all other lines."""
    if not any(hint in line for hint in _HANGING_HINTS):
        return None
    return _first([line], _HANGING, ever_ready=False)


def search(lines: Sequence[str], *, ever_ready: bool = False) -> Diagnosis | None:
    """The most telling known failure that the lines hold.

    Args:
        lines: cleaned and redacted.
        ever_ready: whether the server had been ready: some failures can only happen before.
    """
    return _first(lines, KNOWN_FAILURES, ever_ready=ever_ready)


def last_error(lines: Sequence[str]) -> str | None:
    """The line that ends the last traceback."""
    return next((line for line in reversed(lines) if _TRACEBACK_END.match(line) and not _NOT_READ.search(line)), None)


def _first(lines: Sequence[str], table: Sequence[Known], *, ever_ready: bool) -> Diagnosis | None:
    candidates = list(_candidates(lines))
    for known in table:
        if known.only_before_ready and ever_ready:
            continue
        for index in reversed(candidates) if known.block else candidates:
            match = known.search(lines[index])
            if match is None or _meant_otherwise(known, lines, index):
                continue
            groups = [(group or "?")[:MAX_GROUP] for group in match.groups()]
            error = (_error_below(lines, index) or "see the lines")[:MAX_GROUP]
            return Diagnosis(
                known.code,
                known.summary.format(*groups, error=error.rstrip(".")),
                known.cure.format(*groups),
                known.permanent,
                _shown(known, lines, index),
            )
    return None


def _candidates(lines: Sequence[str]) -> Iterator[int]:
    """The lines to look at: those that can tell of an end at all."""
    batches = sum(1 for line in lines if _BATCH.search(line))
    for index, line in enumerate(lines):
        if _BATCH.search(line):
            batches -= 1
        if batches < WORK_SINCE and _FRAME.match(line) is None and _NOT_READ.search(line) is None:
            yield index


def _meant_otherwise(known: Known, lines: Sequence[str], index: int) -> bool:
    above, below = lines[:index], lines[index + 1 :]
    return (known.unless is not None and any(re.search(known.unless, line) for line in above)) or (
        known.overcome is not None and any(re.search(known.overcome, line) for line in below)
    )


def _shown(known: Known, lines: Sequence[str], index: int) -> list[str]:
    start, end = max(0, index - known.before), index + AFTER + 1
    chosen = list(lines[start:end])
    if known.block is not None:
        above = range(index, max(-1, index - BLOCK_LINES), -1)
        start = next((number for number in above if re.search(known.block, lines[number])), start)
        chosen = [*lines[start : min(index, start + MAX_SHOWN - 1)], lines[index]]
    elif known.traceback and (last := _traceback_end(lines, index)) is not None:
        chosen = [lines[index], *lines[max(index + 1, last - MAX_SHOWN + 2) : last + 1]]
    return [line[:MAX_LINE] for line in chosen if line == lines[index] or _NOT_READ.search(line) is None][:MAX_SHOWN]


def _traceback_end(lines: Sequence[str], index: int) -> int | None:
    return next((number for number in range(index + 1, len(lines)) if _TRACEBACK_END.match(lines[number])), None)


def _error_below(lines: Sequence[str], index: int) -> str | None:
    end = _traceback_end(lines, index)
    return lines[end] if end is not None else None
