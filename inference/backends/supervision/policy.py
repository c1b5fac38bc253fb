"""How patient the supervisor is, in seconds; one place, so that tests can hurry and operators can read it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Defaults are for real servers."""

    tick_s: float = 1.0
    """Between looks at what people ask for; the end of a process is seen at once besides."""
    moving_look_s: float = 0.25
    """Between looks at a server that starts, drains or stops."""
    steady_look_s: float = 2.0
    """Between looks at one that is ready, or at rest."""
    starting_check_s: float = 2.0
    """Between HTTP checks while the log says that the server still loads (the log may be wrong, or silent)."""
    warming_check_s: float = 0.25
    """Between HTTP checks once it says that its port is about to open."""
    health_s: float = 10.0
    """Between looks at an idle server: its `/ready`, a test of a flag that costs it nothing, and its live figures."""
    sick_health_s: float = 5.0
    """The same while it does not answer, and before a canary that failed is sent again."""
    health_timeout_s: float = 25.0
    """For `/health`, where there is no `/ready`: the server itself waits up to 20 s for its scheduler."""
    canary_s: float = 30.0
    """Between generations of one token, as long as nothing else shows that an idle server generates."""
    canary_timeout_s: float = 20.0
    """As long as SGLang's own health check waits for its scheduler."""
    busy_limit_s: float = 300.0
    """Silence with requests running is a long prefill, until it is longer than SGLang's own watchdog allows."""
    quiet_s: float = 20.0
    """Requests that run for so long without a token are worth a word, and a question to `/ready`."""
    first_generate_s: float = 600.0
    """For the first real request: kernels may be compiled for it."""
    attached_generate_s: float = 60.0
    """The same of somebody else's server: until then nothing is known of it, and one that is late is asked again."""
    figures_s: float = 2.0
    """Between readings of the live figures while work runs."""
    idle_figures_s: float = 10.0
    """The same while nothing runs."""
    drain_look_s: float = 0.5
    """Between questions whether anything is still in flight; two that say no end a drain."""
    kill_after_s: float = 20.0
    """From SIGTERM to SIGKILL."""
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
    refresh_s: float = 30.0
    """Evidence that changed only in its words or its time is written this often."""
    leftovers_s: float = 60.0
    """Between searches for processes of ours that belong to no start."""
    clean_s: float = 5.0
    """Between looks whether somebody asked to have one cleaned."""
    cap_s: float = 5.0
    """Between looks at the size of a growing log."""
