"""What a breaker promises: the sick are left out, one trial at a time takes them back, and a refused request is nobody's fault."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inference.backends.server.breaker import BUSY_STRIKES, LONGEST_S, THRESHOLD, Breaker, as_of


class Hands:
    """A clock that is set by hand, and the time of day that goes with it."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at)


def make(jitter: float = 1.0) -> tuple[Breaker, Hands]:
    hands = Hands()
    return Breaker(hands, wall=hands.wall, jitter=lambda: jitter), hands


def opened() -> tuple[Breaker, Hands]:
    breaker, hands = make()
    for _ in range(THRESHOLD):
        breaker.failed("gone", breaker.sent())
    return breaker, hands


def test_failures_in_a_row_open_it_and_say_until_when() -> None:
    breaker, hands = make()
    for _ in range(THRESHOLD - 1):
        breaker.failed("boom", breaker.sent())
    assert breaker.state == "closed"
    assert breaker.to_json() is None
    breaker.failed("The server went away.", breaker.sent())
    assert not breaker.allow()
    assert breaker.to_json() == {
        "state": "open",
        "failures": THRESHOLD,
        "since": hands.wall().isoformat(),
        "until": (hands.wall() + timedelta(seconds=1)).isoformat(),
        "error": "The server went away.",
    }


def test_one_answer_between_them_keeps_it_closed() -> None:
    breaker, _ = make()
    for _ in range(20):
        for _ in range(THRESHOLD - 1):
            breaker.failed("boom", breaker.sent())
        breaker.succeeded(breaker.sent())
        assert breaker.state == "closed"
        assert breaker.allow()


def test_after_the_pause_one_request_goes_out_on_trial_and_its_answer_closes_it() -> None:
    breaker, hands = opened()
    hands.at += 0.9
    assert not breaker.allow()
    hands.at += 0.1
    assert (breaker.state, breaker.allow()) == ("half_open", True)
    ticket = breaker.sent()
    assert (breaker.state, breaker.allow()) == ("half_open", False)
    breaker.succeeded(ticket)
    assert (breaker.state, breaker.allow(), breaker.to_json()) == ("closed", True, None)


def test_a_trial_that_fails_means_a_longer_pause_up_to_a_bound() -> None:
    breaker, hands = opened()
    pauses = []
    for _ in range(8):
        hands.at = max(hands.at, breaker._not_before)
        breaker.failed("still gone", breaker.sent())
        pauses.append(breaker._not_before - hands.at)
    assert pauses == [2, 4, 8, 16, LONGEST_S, LONGEST_S, LONGEST_S, LONGEST_S]


def test_a_trial_that_was_given_up_on_our_side_leaves_room_for_another() -> None:
    breaker, hands = opened()
    hands.at += 1
    breaker.dropped(breaker.sent())
    assert (breaker.state, breaker.allow()) == ("half_open", True)


def test_requests_refused_as_such_never_count_against_the_server() -> None:
    breaker, _ = make()
    for _ in range(100):
        breaker.refused(breaker.sent())
    assert (breaker.state, breaker.allow()) == ("closed", True)


def test_a_refused_trial_is_an_answer() -> None:
    breaker, hands = opened()
    hands.at += 1
    breaker.refused(breaker.sent())
    assert breaker.state == "closed"


def test_what_was_sent_before_it_opened_says_nothing_afterwards() -> None:
    breaker, hands = make()
    old = [breaker.sent() for _ in range(50)]
    for ticket in old[:THRESHOLD]:
        breaker.failed("gone", ticket)
    until = breaker.to_json()
    for ticket in old[THRESHOLD:30]:
        breaker.failed("gone", ticket)
    assert breaker.to_json() == until
    hands.at += 1
    breaker.succeeded(breaker.sent())
    for ticket in old[30:]:
        breaker.failed("a request of before the server came back", ticket)
    assert breaker.state == "closed"


def test_a_kept_breaker_is_half_open_once_its_pause_is_over() -> None:
    until = datetime(2026, 11, 30, 7, 0, tzinfo=UTC)
    kept = {"state": "open", "failures": 5, "until": until.isoformat(), "error": "no answer"}
    assert as_of(kept, until - timedelta(seconds=1)) == kept
    assert as_of(kept, until) == {**kept, "state": "half_open"}
    assert as_of({**kept, "until": None}, until) == {**kept, "until": None, "state": "half_open"}
    assert as_of(None, until) is None


def test_a_late_answer_shows_that_the_server_works() -> None:
    breaker, _ = make()
    slow = breaker.sent()
    for _ in range(THRESHOLD):
        breaker.failed("gone", breaker.sent())
    breaker.succeeded(slow)
    assert breaker.state == "closed"


def test_a_busy_server_is_waited_for_politely_and_many_turned_away_together_are_one_strike() -> None:
    breaker, hands = make()
    tickets = [breaker.sent() for _ in range(64)]
    for ticket in tickets:
        breaker.busy("The request queue is full.", ticket)
    assert breaker.state == "closed"
    assert not breaker.allow()
    hands.at += 0.25
    assert breaker.allow()
    breaker.busy("full", breaker.sent())
    hands.at += 0.25
    assert not breaker.allow()
    hands.at += 0.25
    breaker.succeeded(breaker.sent())
    breaker.busy("full", breaker.sent())
    hands.at += 0.25
    assert breaker.allow()


def test_nothing_but_503_for_long_is_a_failure_too() -> None:
    breaker, hands = make()
    for _ in range(BUSY_STRIKES):
        breaker.busy("full", breaker.sent())
        assert breaker.state == "closed"
        hands.at = breaker._not_before
    breaker.busy("The request queue is full.", breaker.sent())
    assert breaker.state == "open"
    assert breaker.error == "The request queue is full."


class Life(RuleBasedStateMachine):
    """Any order of sendings and ends, of old requests and new ones, with time going by."""

    @initialize(jitter=st.floats(0.75, 1.25))
    def begin(self, jitter: float) -> None:
        self.breaker, self.hands = make(jitter)
        self.live: list[int] = []
        self.in_a_row = 0
        self.opened_at = 0
        self.trial: int | None = None

    @rule(seconds=st.floats(0.01, 40))
    def wait(self, seconds: float) -> None:
        self.hands.at += seconds

    @precondition(lambda self: self.breaker.allow())
    @rule()
    def send(self) -> None:
        half = self.breaker.state == "half_open"
        ticket = self.breaker.sent()
        self.live.append(ticket)
        if half:
            assert self.trial is None
            self.trial = ticket

    @precondition(lambda self: self.live)
    @rule(data=st.data(), end=st.sampled_from(["succeeded", "failed", "refused", "dropped", "busy"]))
    def end(self, data: st.DataObject, end: str) -> None:
        ticket = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        before = (self.breaker.state, self.breaker.to_json())
        was_trial, self.trial = ticket == self.trial, None if ticket == self.trial else self.trial
        if end in {"failed", "busy"}:
            getattr(self.breaker, end)("why", ticket)
        else:
            getattr(self.breaker, end)(ticket)
        if end == "succeeded":
            self.trial = None
            assert self.breaker.state == "closed"
            assert self.breaker.allow()
        elif was_trial:
            assert self.breaker.state == {"refused": "closed", "dropped": "half_open"}.get(end, "open")
        elif before[0] != "closed" or end in {"refused", "dropped"}:
            assert (self.breaker.state, self.breaker.to_json()) == before

    @invariant()
    def no_more_than_one_trial(self) -> None:
        if not hasattr(self, "breaker"):
            return
        if self.trial is not None:
            assert self.breaker.state == "half_open"
            assert not self.breaker.allow()
        if self.breaker.state == "open":
            assert not self.breaker.allow()
        assert (self.breaker.to_json() is None) == (self.breaker.state == "closed")

    @invariant()
    def never_for_ever(self) -> None:
        if not hasattr(self, "breaker"):
            return
        assert self.breaker._not_before <= self.hands.at + LONGEST_S
        if self.breaker.state != "closed":
            assert datetime.fromisoformat(self.breaker.to_json()["until"]) <= self.hands.wall() + timedelta(
                seconds=LONGEST_S + 0.001
            )


TestLife = Life.TestCase


@given(st.lists(st.sampled_from(["failed", "refused", "dropped"]), max_size=60))
def test_it_opens_at_the_threshold_and_not_before(ends: list[str]) -> None:
    breaker, _ = make()
    failures = 0
    for end in ends:
        ticket = breaker.sent()
        if end == "failed":
            breaker.failed("x", ticket)
            failures += 1
        else:
            getattr(breaker, end)(ticket)
        if failures == THRESHOLD:
            break
    assert (breaker.state == "open") == (failures >= THRESHOLD)
