"""Whether a server that was ready still lives, judged from what was seen of it. Pure: it asks nobody and reads no clock.

Tokens are life: those of people's requests, or one of our own where nothing else runs. Silence with requests running is a long
prefill until it has lasted longer than SGLang's own watchdog would let it. A health check that fails is a reason to ask for a
token, not a verdict; an idle server that twice does not generate it is unresponsive. Nothing here kills.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from inference.backends.supervision.policy import Policy

FAILURES = 2
"""So many bad answers in a row are more than chance."""


@dataclass(slots=True)
class Doubt:
    """Bad answers of one kind in a row: since when, how many, what the last one was."""

    count: int = 0
    since: datetime | None = None
    text: str = ""

    def add(self, at: datetime, text: str, *, surely: bool = False) -> None:
        """Another; `surely` where one such answer is proof enough."""
        self.count = max(FAILURES, self.count + 1) if surely else self.count + 1
        self.since, self.text = self.since or at, text

    def clear(self) -> None:
        """A good answer."""
        self.count, self.since, self.text = 0, None, ""


@dataclass(slots=True)
class Pulse:
    """What was seen last, and when.

    Args:
        alive_at: when it last generated, for whomever.
        serves: False for a node that generates nothing itself: its health check is all there is.
        ours: False for somebody else's server, whose process nobody sees.
    """

    alive_at: datetime
    serves: bool = True
    ours: bool = True
    tokens_at: datetime | None = None
    """The last sign of other people's tokens"""
    in_flight: int | None = None
    """Running and queued by its own last figures; None where it does not tell"""
    busy_since: datetime | None = None
    health: Doubt = field(default_factory=Doubt)
    generation: Doubt = field(default_factory=Doubt)
    died: str | None = None
    """The log's line that says that a part of it died"""

    def tokens(self, at: datetime) -> None:
        """Tokens of somebody's work flowed."""
        if self.tokens_at is None or at > self.tokens_at:
            self.tokens_at = at
            self._generates(at)

    def answered(self, at: datetime) -> None:
        """It generated a token for us."""
        self._generates(at)

    def figures(self, at: datetime, in_flight: int) -> None:
        """It said how many requests it has."""
        self.in_flight = in_flight
        if not in_flight:
            self.busy_since = None
        elif self.busy_since is None:
            self.busy_since = at

    @property
    def busy(self) -> bool:
        """Whether requests are running, as far as it tells."""
        return bool(self.in_flight)

    def quiet(self, at: datetime, policy: Policy) -> bool:
        """Whether it is worth a question: it is idle, or its work has been silent for a while."""
        return not self.busy or (at - self._silent_since()).total_seconds() > policy.quiet_s

    def canary_is_due(self, at: datetime, policy: Policy) -> bool:
        """Whether a generation of ours is worth its token: it is idle and nothing else showed life, or it is in doubt."""
        if self.busy and self.verdict(at, policy)[0] == "ready":
            return False
        every = policy.sick_health_s if self.generation.count or self.health.count else policy.canary_s
        return (at - self.alive_at).total_seconds() >= every

    def verdict(self, at: datetime, policy: Policy) -> tuple[str, str]:
        """`ready` or `unresponsive`, and the sentence that says why."""
        if self.died is not None:
            return "unresponsive", "Unresponsive: a part of it died; SGLang is shutting itself down."
        if not self.serves:
            return self._of_a_part()
        if self.busy:
            return self._at_work(at, policy)
        if self.generation.count >= FAILURES:
            return "unresponsive", self._unresponsive(self.generation)
        if self.health.count:
            return "ready", f"Ready: it generates, though not every check is good: {self.health.text}"
        own = ", and the answers are this start's own" if self.ours else " by ids"
        return "ready", f"Ready: it answers requests{own}."

    def _of_a_part(self) -> tuple[str, str]:
        if self.health.count >= FAILURES:
            return "unresponsive", self._unresponsive(self.health)
        return "ready", "Ready: this part of the server is at work for node 0, which answers the requests."

    def _at_work(self, at: datetime, policy: Policy) -> tuple[str, str]:
        since = self._silent_since()
        silence = at - since
        if silence > timedelta(seconds=policy.busy_limit_s):
            return "unresponsive", (
                f"Unresponsive: requests are running, but no token has come since {since:%H:%M:%S} UTC, longer than any "
                f"prefill takes. It looks hung. {'Nothing is killed: restart it, or wait.' if self.ours else 'It is watched on.'}"
            )
        if silence > timedelta(seconds=policy.quiet_s):
            check = f" {self.health.text}" if self.health.count else ""
            return "ready", (
                f"Ready and busy: requests are running, but no token has come since {since:%H:%M:%S} UTC, as in a long "
                f"prefill.{check}"
            )
        if self.tokens_at is None or at - self.tokens_at > timedelta(seconds=policy.quiet_s):
            return "ready", "Ready and at work: requests are running; no token was seen yet."
        return "ready", "Ready and at work: tokens flow."

    def _generates(self, at: datetime) -> None:
        self.alive_at = max(self.alive_at, at)
        self.generation.clear()

    def _silent_since(self) -> datetime:
        """Since when work has shown nothing; work that has just begun is not silent for as long as the server was idle."""
        return max(self.alive_at, self.busy_since or self.alive_at)

    def _unresponsive(self, doubt: Doubt) -> str:
        alive = "the process is alive but gives no good answer" if self.ours else "no good answer has come"
        nothing = "Nothing is killed; it is asked again." if self.ours else "It is asked again."
        return f"Unresponsive: {alive} since {doubt.since:%H:%M:%S} UTC: {doubt.text} {nothing}"
