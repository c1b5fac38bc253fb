"""Which process is which: pid and start time together, and the marker that a server's tree carries in its environment."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

START_VARIABLE = "DRAFTMILL_START"
"""Environment variable that carries the start's weight version through the whole process tree: what a leftover is known by."""

CLOCK_TOLERANCE_S = 1.5
"""psutil derives start times from the boot time, which moves a little when the clock is set."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that cannot be confused with a later one of the same number; `started` is epoch seconds."""

    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class Member:
    """A living process of a server's tree."""

    identity: Identity
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.identity.pid})"


def identity_of(pid: int) -> Identity | None:
    """The identity of a living process; None for none, or a zombie."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid, process.create_time())
    except psutil.Error:
        return None


def is_alive(identity: Identity) -> bool:
    """Whether this very process lives (a zombie does not)."""
    found = identity_of(identity.pid)
    return found is not None and abs(found.started - identity.started) < CLOCK_TOLERANCE_S


def marker_of(pid: int) -> str | None:
    """The start marker in a process's environment; None where it has none or we may not read it."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = START_VARIABLE.encode() + b"="
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("utf-8", "replace")
    return None


def find_leader(marker: str) -> Identity | None:
    """The main process of the start with this marker, should one run that nobody wrote down."""
    for pid in psutil.pids():
        if marker_of(pid) == marker and session_of(pid) == pid:
            return identity_of(pid)
    return None


def session_of(pid: int) -> int | None:
    """The session a process is in; None where it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def group_of(pid: int) -> int | None:
    """The process group it is in; None where it is gone."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def same(left: Identity, right: Identity) -> bool:
    """Whether both name one process, give or take a clock that was set."""
    return left.pid == right.pid and abs(left.started - right.started) < CLOCK_TOLERANCE_S
