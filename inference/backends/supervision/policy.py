"""How patient the supervisor is, in seconds; one place, so that tests can hurry and operators can read it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Defaults are for real servers."""

    tick_s: float = 0.5
    """How often every backend is looked at; the end of a process is seen at once besides."""
    starting_check_s: float = 2.0
    """Between HTTP checks while the log says that the server still loads (the log may be wrong, or silent)."""
    warming_check_s: float = 0.5
    """Between HTTP checks once it says that its port is open."""
    health_s: float = 20.0
    """Between health checks of a ready server; each costs a token on an idle one."""
    sick_health_s: float = 5.0
    """The same while it does not answer."""
    health_timeout_s: float = 25.0
    """The server itself waits up to 20 s for its scheduler."""
    first_generate_s: float = 600.0
    """For the first real request: kernels may be compiled for it."""
    stop_deadline_s: float = 20.0
    """From SIGTERM to SIGKILL."""
    abort_after_s: float = 12.0
    """From SIGTERM to the request that aborts what is still in flight."""
    kill_deadline_s: float = 10.0
    """How long to wait for killed processes to be gone."""
    memory_deadline_s: float = 30.0
    """How long to wait for the driver to take back the GPU memory of processes that are gone."""
    backoff_s: tuple[float, ...] = (2.0, 10.0, 30.0)
    """Waits before each restart after a crash; as many restarts as there are entries."""
    steady_s: float = 600.0
    """After so long in `ready` earlier crashes are forgotten."""
    probe_retry_s: float = 30.0
    """Before a probe that could not be made is tried again."""
    attached_check_s: float = 15.0
    """Between checks of an attached server."""
    refresh_s: float = 10.0
    """Evidence that changed only in its time is written this often."""
