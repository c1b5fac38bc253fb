"""Processes: the one module that starts them and sends them signals.

A server is started in a session of its own, writes to a file (never a pipe that could fill up), and outlives the process
that started it, so no parent-death signal ties it down. It is known by pid *and* start time, and by a marker in its
environment that its whole tree inherits; a pid alone proves nothing, and what cannot be proven ours is never signalled.

Signals go through a pidfd where the kernel has one, which cannot hit a process that took over the number.
"""

import contextlib
import os
import select
import signal
import subprocess  # noqa: TID251  (the module that the ban points to)
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from inference.backends.host.identity import (
    CLOCK_TOLERANCE_S,
    Identity,
    Member,
    environment_of,
    group_of,
    identity_of,
    is_alive,
    marker_of,
    same,
    session_of,
)

_children: dict[int, "subprocess.Popen[bytes]"] = {}
"""Children not reaped yet: a second supervisor in this process can still learn their exit codes."""


class ServerProcess:
    """One server's process tree: alive or not, how it ended, and how to end it.

    Use `spawn` or `adopt`. `exit_code` is known only where it is our own child; `is_child` says so.
    """

    def __init__(
        self, identity: Identity, marker: str, child: "subprocess.Popen[bytes] | None", *, gone: bool = False
    ) -> None:
        self.identity = identity
        self.marker = marker
        self._child = child
        self._known: set[Identity] = {identity}
        self._reaped = gone
        self._pidfd: int | None = None
        if not gone:
            with contextlib.suppress(OSError):  # an old kernel: then the identity is compared before each signal
                self._pidfd = os.pidfd_open(identity.pid)

    @classmethod
    def spawn(
        cls, argv: Sequence[str], env: Mapping[str, str], *, log: Path, cwd: Path, marker: str
    ) -> "ServerProcess":
        """Start `argv` in a session of its own; stdin is /dev/null, both outputs go to `log` (made 0600).

        Raises:
            OSError: the program cannot be executed, or the log cannot be made.
        """
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                list(argv),
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        _children[child.pid] = child
        return cls(Identity(child.pid, psutil.Process(child.pid).create_time()), marker, child)

    @classmethod
    def adopt(cls, identity: Identity, marker: str) -> "ServerProcess | None":
        """Take back a server that an earlier process started; None where it does not live or is not provably that one."""
        found = identity_of(identity.pid)
        if found is None:
            return None
        seen = marker_of(identity.pid)
        if seen is None:
            if marker and environment_of(identity.pid):  # it can be read and bears no marker: never one of ours
                return None
            if abs(found.started - identity.started) >= CLOCK_TOLERANCE_S:
                return None
        elif seen != marker or session_of(identity.pid) != identity.pid:
            return None
        return cls(found, marker, _children.get(identity.pid))

    @classmethod
    def gone(cls, identity: Identity, marker: str) -> "ServerProcess":
        """A handle on what is left of a tree whose main process is known to be dead: nothing is ever sent to its number."""
        return cls(identity, marker, None, gone=True)

    @property
    def is_child(self) -> bool:
        """Whether we are its parent, and so shall learn its exit code."""
        return self._child is not None

    @property
    def pidfd(self) -> int | None:
        """Readable once the process has ended; for an event loop to wait on."""
        return self._pidfd

    def alive(self) -> bool:
        """Whether the main process lives."""
        if self._reaped:
            return False
        if self._pidfd is not None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            return not poll.poll(0)
        return is_alive(self.identity)

    def remember(self) -> None:
        """Note the descendants that live now, so that they are known as ours should the main process die."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.identity.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    self._known.add(Identity(child.pid, child.create_time()))

    @property
    def known_pids(self) -> list[int]:
        """Of the processes that were noted as ours; some may be gone."""
        return [identity.pid for identity in self._known]

    def members(self) -> list[Member]:
        """Every living process of the tree: by the marker it inherited, or of our session and known to us."""
        main_lives = self.alive()
        found: list[Member] = []
        for pid in psutil.pids():
            in_session = session_of(pid) == self.identity.pid
            marked = bool(self.marker) and marker_of(pid) == self.marker
            if not in_session and not marked:
                continue
            identity = identity_of(pid)
            if identity is None:
                continue
            if marked or main_lives or any(same(identity, known) for known in self._known):
                with contextlib.suppress(psutil.Error):
                    found.append(Member(identity, psutil.Process(pid).name()))
        return found

    def terminate(self) -> bool:
        """SIGTERM to the main process alone: its children die of a group signal, and it would take that for a crash."""
        return self._signal_main(signal.SIGTERM)

    def kill_tree(self) -> list[Member]:
        """SIGKILL to the group and to every member that left it; returns who lived just before.

        The group is signalled only while the main process (or its unreaped remains) or a proven member still holds the
        number, so that it cannot be another's.
        """
        members = self.members()
        holds_number = (self._child is not None and not self._reaped) or self.alive()
        in_group = any(group_of(member.identity.pid) == self.identity.pid for member in members)
        if self.identity.pid > 1 and (holds_number or in_group):  # 0, an unknown number, would be our own group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.identity.pid, signal.SIGKILL)  # noqa: TID251
        for member in members:
            _kill_exactly(member.identity)
        return members

    def reap(self) -> int | None:
        """Collect an ended child; the exit code (negative: the signal), or None where it is unknown or it still lives.

        Call `kill_tree` first: until it is reaped, the child's number, and so the group's, cannot be given to another.
        """
        if self._child is None:
            return None
        code = self._child.poll()
        if code is not None:
            self._reaped = True
            _children.pop(self.identity.pid, None)
        return code

    def close(self) -> None:
        """Let go of it without touching it: it runs on."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _signal_main(self, number: signal.Signals) -> bool:
        if not self.alive():
            return False
        try:
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            else:
                os.kill(self.identity.pid, number)  # noqa: TID251
        except (ProcessLookupError, PermissionError):
            return False
        return True


class WorkerProcess:
    """The worker: a child that ends when its stdin closes, that is, when we are gone for whatever reason."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._child.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end; None where it still runs after `timeout_s`."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, deadline_s: float = 10.0) -> int:
        """Close its stdin and wait; SIGTERM after `deadline_s`, SIGKILL two seconds later. Returns the exit code."""
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()
        code = self.wait(deadline_s)
        if code is None:
            self._child.terminate()
            code = self.wait(2.0)
        if code is None:
            self._child.kill()
            code = self._child.wait()
        return code


def spawn_worker(argv: Sequence[str], env: Mapping[str, str], log: Path | None) -> WorkerProcess:
    """Start the worker with a pipe on its stdin that nothing is ever written to; outputs go to `log`, or where ours go.

    Raises:
        OSError: it cannot be executed, or the log cannot be made.
    """
    output = None
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C for us must not kill it in the middle of a write
        )
    finally:
        if output is not None:
            os.close(output)
    return WorkerProcess(child)


def ask_interpreter(python: Path, code: str, timeout_s: float = 30.0) -> tuple[int, str]:
    """Run `python -I -c code`; the exit code and the last 2,000 characters of its output.

    Raises:
        OSError: it cannot be executed.
    """
    code_of, said = ask_program([str(python), "-I", "-c", code], timeout_s)
    return code_of, said[-2000:]


def ask_program(argv: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a program that answers and ends; its exit code (-1: none in time) and its output.

    Raises:
        OSError: it cannot be executed.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {timeout_s:.0f} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def wait_gone(process: ServerProcess, deadline_s: float) -> list[Member]:
    """Kill what is left of a tree until nothing is, or the deadline passes; returns who still lives. Blocks."""
    deadline = time.monotonic() + deadline_s
    while members := process.kill_tree():
        if time.monotonic() >= deadline:
            return members
        time.sleep(0.05)
    return []


def _kill_exactly(identity: Identity) -> None:
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        descriptor = None
    try:
        if not is_alive(identity):  # asked after the pidfd was opened: it now names this process or a dead one
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            else:
                os.kill(identity.pid, signal.SIGKILL)  # noqa: TID251
    finally:
        if descriptor is not None:
            os.close(descriptor)
