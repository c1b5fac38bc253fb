"""When a server that was ready counts as alive: tokens are life, silence at work is patience, an idle server must answer."""

from datetime import UTC, datetime, timedelta

import pytest

from inference.backends.supervision.policy import Policy
from inference.backends.supervision.pulse import Pulse

T0 = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = Policy()


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_an_idle_server_is_asked_for_a_token_only_after_a_while_without_any() -> None:
    pulse = Pulse(T0)
    assert not pulse.canary_is_due(at(POLICY.canary_s - 1), POLICY)
    assert pulse.canary_is_due(at(POLICY.canary_s), POLICY)
    pulse.tokens(at(25))
    assert not pulse.canary_is_due(at(POLICY.canary_s), POLICY)
    assert pulse.verdict(at(25), POLICY)[0] == "ready"


def test_nothing_is_sent_to_a_server_at_work() -> None:
    pulse = Pulse(T0)
    pulse.figures(at(1), 3)
    pulse.tokens(at(2))
    assert not pulse.quiet(at(3), POLICY)
    assert not pulse.canary_is_due(at(200), POLICY)
    assert pulse.verdict(at(3), POLICY) == ("ready", "Ready and at work: tokens flow.")


def test_silence_with_requests_running_is_busy_until_it_is_longer_than_any_prefill() -> None:
    pulse = Pulse(T0)
    pulse.figures(at(1000), 1)
    state, told = pulse.verdict(at(1010), POLICY)
    assert (state, "busy" in told) == ("ready", False), "idle time before is no silence"
    assert "no token was seen yet" in told
    pulse.health.add(at(1030), "/ready answered 503.")
    state, told = pulse.verdict(at(1030), POLICY)
    assert state == "ready"
    assert "busy" in told
    assert "/ready answered 503." in told
    assert pulse.quiet(at(1030), POLICY)
    state, told = pulse.verdict(at(1000 + POLICY.busy_limit_s + 1), POLICY)
    assert state == "unresponsive"
    assert "Nothing is killed" in told
    assert pulse.canary_is_due(at(1000 + POLICY.busy_limit_s + 1), POLICY)
    pulse.tokens(at(1400))
    assert pulse.verdict(at(1401), POLICY)[0] == "ready"


def test_an_idle_server_that_twice_gives_no_token_is_unresponsive_and_comes_back_with_one() -> None:
    pulse = Pulse(T0)
    pulse.generation.add(at(30), "no answer within 20 s.")
    assert pulse.verdict(at(50), POLICY)[0] == "ready"
    pulse.generation.add(at(55), "no answer within 20 s.")
    state, told = pulse.verdict(at(75), POLICY)
    assert state == "unresponsive"
    assert "since 00:00:30 UTC" in told
    pulse.answered(at(80))
    assert pulse.verdict(at(80), POLICY)[0] == "ready"


def test_a_failing_health_check_alone_makes_nobody_unresponsive_but_asks_for_a_token_soon() -> None:
    pulse = Pulse(T0)
    for second in (6, 11, 16):
        pulse.health.add(at(second), "/ready answered 503.")
    assert pulse.canary_is_due(at(16), POLICY)
    state, told = pulse.verdict(at(16), POLICY)
    assert state == "ready"
    assert "/ready answered 503." in told


def test_an_answer_with_another_version_needs_no_second() -> None:
    pulse = Pulse(T0)
    pulse.generation.add(at(1), "its weight version is 'x'.", surely=True)
    assert pulse.verdict(at(1), POLICY)[0] == "unresponsive"


def test_a_server_of_which_a_part_died_is_unresponsive_at_once_whatever_it_answers() -> None:
    pulse = Pulse(T0, died="Subprocess scheduler_0 (pid=7) crashed with exit code -9.")
    pulse.tokens(at(1))
    state, told = pulse.verdict(at(1), POLICY)
    assert state == "unresponsive"
    assert "shutting itself down" in told


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_part_of_a_server_is_judged_by_its_health_check(failures: int) -> None:
    pulse = Pulse(T0, serves=False)
    for number in range(failures):
        pulse.health.add(at(number), "nothing listens.")
    assert pulse.verdict(at(10), POLICY)[0] == ("unresponsive" if failures == 2 else "ready")
