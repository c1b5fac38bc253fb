"""Which process is which: pid and start time together, and the marker that a server's tree carries in its environment."""

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

START_VARIABLE = "DRAFTMILL_START"
"""Environment variable that carries the start's weight version through the whole process tree: what a leftover is known by."""

CLOCK_TOLERANCE_S = 1.5
"""psutil derives start times from the boot time, which moves a little when the clock is set."""

_MARKER = re.compile(
    r"draftmill-(?:(?P<instance>[0-9a-f]{8})-)?(?P<backend>[0-9]{1,9})-(?P<number>[0-9]{1,9})-[0-9a-f]{16}"
)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


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


@dataclass(frozen=True, slots=True)
class Marker:
    """What a start marker says: which start of which backend, of which data directory.

    `instance` is None in the markers of earlier versions, which did not say: whose those are, only a database knows.
    """

    instance: str | None
    backend_id: int
    number: int


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and its boot: a pid means something only there. `boot_id` is empty where the kernel does not say.

    In `boot_id` is the process namespace too: containers on one machine share a boot, and do not see each other's processes.
    """

    host: str
    boot_id: str


@cache
def machine() -> Machine:
    """This machine, as long as this process lives."""
    try:
        boot_id = f"{_BOOT_ID.read_text().strip()}/{_PID_NAMESPACE.stat().st_ino}"
    except OSError:
        boot_id = ""
    return Machine(socket.gethostname()[:255], boot_id[:64])


def instance_of(data_dir: Path) -> str:
    """Eight hex digits that name a data directory by its place, so that one made anew there still knows its leftovers."""
    return hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:8]


def new_marker(data_dir: Path, backend_id: int, number: int) -> str:
    """A marker for one start, never given twice: 64 of its bits are chance. Also the server's weight version."""
    return f"draftmill-{instance_of(data_dir)}-{backend_id}-{number}-{secrets.token_hex(8)}"


def read_marker(marker: str) -> Marker | None:
    """What a marker says, of this or of earlier versions; None for what was not made by us."""
    found = _MARKER.fullmatch(marker)
    if found is None:
        return None
    return Marker(found["instance"], int(found["backend"]), int(found["number"]))


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


def environment_of(pid: int) -> bytes | None:
    """A process's environment as it was started with; None where it is gone or we may not read it."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None


def marker_of(pid: int) -> str | None:
    """The start marker in a process's environment; None where it has none or we may not read it."""
    environment = environment_of(pid)
    if environment is None:
        return None
    prefix = START_VARIABLE.encode() + b"="
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("utf-8", "replace")
    return None


def marked() -> Iterator[tuple[int, str]]:
    """Every process whose environment carries a start marker, ours or another's: pid and marker. Reads all of /proc."""
    for pid in psutil.pids():
        marker = marker_of(pid)
        if marker is not None:
            yield pid, marker


def shares_folder(pid: int, folder: Path) -> bool:
    """Whether `folder` is the same folder to that process: in a container of its own, that path may be another's."""
    try:
        ours = folder.resolve().stat()
        theirs = Path(f"/proc/{pid}/root{folder.resolve()}").stat()
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def find_leader(marker: str) -> Identity | None:
    """The main process of the start with this marker, should one run that nobody wrote down."""
    for pid, found in marked():
        if found == marker and session_of(pid) == pid:
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
