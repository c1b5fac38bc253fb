"""A brake on guessing: too many failed log-ins from one address, and the form rests for a while."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

LIMIT = 10
WINDOW_S = 300.0
MAX_ADDRESSES = 10_000


class FailureThrottle:
    """Failed attempts by address within a sliding window; memory bounded, safe from several threads.

    Args:
        limit: failures within the window before an address must wait.
        window_s: seconds that a failure counts.
        clock: seconds, monotonic.
    """

    def __init__(
        self, limit: int = LIMIT, window_s: float = WINDOW_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._window_s, self._clock = limit, window_s, clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, address: str) -> int:
        """Whole seconds that this address must still wait; 0 = it may try."""
        with self._lock:
            times = self._recent(address)
            if len(times) < self._limit:
                return 0
            return max(1, int(times[0] + self._window_s - self._clock()) + 1)

    def failed(self, address: str) -> None:
        """Count a failure."""
        with self._lock:
            times = self._recent(address)
            times.append(self._clock())
            while len(times) > self._limit:
                times.popleft()
            self._failures[address] = times
            self._failures.move_to_end(address)
            while len(self._failures) > MAX_ADDRESSES:
                self._failures.popitem(last=False)

    def _recent(self, address: str) -> deque[float]:
        times = self._failures.get(address, deque[float]())
        horizon = self._clock() - self._window_s
        while times and times[0] <= horizon:
            times.popleft()
        return times
