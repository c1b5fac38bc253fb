"""What the way a server ended says, where its log tells of no known failure."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass

_SEE_AND_CORRECT = "See the lines; correct the launch."
_SHELL = 128
"""A shell between us and the server turns signal n into exit code 128 + n."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a main process ended. `error` is the line that ends the last traceback, `lines` the end of the log."""

    exit_code: int | None
    known_exit: bool
    ever_ready: bool
    error: str | None
    lines: Sequence[str]

    @property
    def signal(self) -> int | None:
        """The signal that ended it."""
        code = self.exit_code
        if code is None:
            return None
        if code < 0:
            return -code
        return code - _SHELL if _SHELL < code <= _SHELL + signal.SIGRTMAX else None

    def __str__(self) -> str:
        if self.exit_code is None:
            return "exit code unknown" if self.known_exit else "exit code unknown: it was not our child any more"
        if self.signal is not None:
            try:
                return f"signal {signal.Signals(self.signal).name}"
            except ValueError:
                return f"signal {self.signal}"
        return f"exit code {self.exit_code}"


_FAULTS = {
    signal.SIGSEGV: ("a library of it touched memory that is not its own", "Try another launch.attention_backend."),
    signal.SIGABRT: ("a library of it gave up", "See the lines: the reason stands in them, if anywhere."),
    signal.SIGBUS: ("a file or shared memory behind its memory went away or was full", "RAISE the size of /dev/shm."),
    signal.SIGILL: (
        "the processor lacks an instruction that the engine was built with",
        "Install an engine for this processor.",
    ),
    signal.SIGFPE: ("a library of it divided by zero", "Try another launch.attention_backend."),
}


Meaning = tuple[str, str, str, bool]
"""Code, summary, cure, and whether another start would end the same way."""


def by_exit_code(end: Ending) -> Meaning:
    """What the exit code says, with what little the log adds."""
    if end.exit_code == 0 or (end.exit_code is None and _shut_down(end)):
        return _in_order(end)
    if not end.ever_ready and (refused := _never_ready(end)) is not None:
        return refused
    if end.signal in _FAULTS:
        what, cure = _FAULTS[signal.Signals(end.signal)]
        return "crashed", f"The server crashed ({end}): {what}.", cure, False
    if end.signal in {signal.SIGKILL, signal.SIGTERM, signal.SIGINT} or end.exit_code is None:
        return _killed(end)
    return "crashed", f"The server ended ({end}){_told(end)}.", "See the lines.", False


def _told(end: Ending) -> str:
    return f": {end.error[:300].rstrip('.')}" if end.error else ""


def _never_ready(end: Ending) -> Meaning | None:
    match end.exit_code:
        case 1:
            return "startup_error", f"SGLang gave up before it was ready ({end}){_told(end)}.", _SEE_AND_CORRECT, True
        case 2:  # argparse's
            return "bad_arguments", f"SGLang refused its arguments ({end}).", _SEE_AND_CORRECT, True
        case 3:  # uvicorn's
            return "http_failed", f"Its HTTP server could not begin ({end}){_told(end)}.", "See the lines.", False
        case 126 | 127:  # a shell's
            return (
                "startup_error",
                f"The engine's interpreter could not run SGLang ({end}).",
                "Run `make engine`.",
                True,
            )
    return None


def _shut_down(end: Ending) -> bool:
    """Whether the log ends with the lines of an orderly end: nobody could collect the exit code of a server that we adopted."""
    return any("Application shutdown complete" in line for line in end.lines[-50:])


def _in_order(end: Ending) -> Meaning:
    if any("while health check failed. Force exiting" in line for line in end.lines):
        summary = "Somebody sent SIGTERM to the server while it did not answer, and its requests in flight were lost."
    elif any("SIGTERM received" in line for line in end.lines):
        summary = "Somebody sent SIGTERM to the server, and it shut down in order: Draftmill did not ask for it."
    else:
        summary = "The server shut down in order, but not because Draftmill asked."
    return "ended_itself", summary, "See who ended it, or stop it here instead.", False


def _killed(end: Ending) -> Meaning:
    if end.signal == signal.SIGINT:
        return "killed", f"The server was interrupted ({end}), as by a Ctrl-C.", "Stop it here instead.", False
    if end.signal == signal.SIGTERM:
        summary = f"Somebody sent SIGTERM to the server before it could handle it ({end})."
        return "killed", summary, "See who ended it, or stop it here instead.", False
    if end.signal == signal.SIGKILL and any("kill_process_tree called" in line for line in end.lines[-50:]):
        return "crashed", f"SGLang ended itself ({end}){_told(end)}.", "See the lines.", False
    cure = "Most often the kernel, for want of memory (see `dmesg`), or a person."
    if not end.ever_ready:
        cure += " On a CPU LOWER launch.max_total_tokens: without it the KV cache takes 0.7 of the memory."
    return "killed", f"The server was killed from outside ({end}): its log ends without a word of it.", cure, False
