"""A log's batch lines give the figures that people see, and an idle server's silence gives zeros."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.backends.logs.batchlines import QUIET_S, BatchLines, is_health_check
from inference.backends.server.figures import Reading

AT = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
PREFILL = (
    "Prefill batch, #new-seq: 3, #new-token: 812, #cached-token: 64, token usage: 0.02, #running-req: 5, #queue-req: 2, "
    "#pending-token: 0, cuda graph: True, input throughput (token/s): 1234.56"
)
DECODE = (
    "Decode batch, #running-req: 12, #token: 4096, token usage: 0.03, cuda graph: True, gen throughput (token/s): 987.65, "
    "#queue-req: 0"
)
HEALTH = (
    "Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, "
    "#pending-token: 0, cpu graph: False, input throughput (token/s): 0.81"
)


def stamped(text: str, at: datetime = AT, ranks: str = "") -> str:
    return f"[{at.astimezone():%Y-%m-%d %H:%M:%S}{ranks}] {text}"


def after(*lines: str, seconds: float = 0.0) -> Reading | None:
    read = BatchLines()
    for line in lines:
        read.feed(line, AT)
    return read.reading(AT + timedelta(seconds=seconds))


def told(*lines: str, seconds: float = 0.0) -> Reading:
    reading = after(*lines, seconds=seconds)
    assert reading is not None
    return reading


def test_a_decode_line_tells_running_queued_usage_and_speed() -> None:
    reading = told(stamped(DECODE))
    assert (reading.source, reading.running, reading.queued) == ("log", 12, 0)
    assert (reading.kv_usage, reading.tokens_per_s, reading.cache_hit) == (0.03, 987.65, None)


def test_a_prefills_requests_run_from_there_on_and_its_cached_tokens_make_the_hit_rate() -> None:
    reading = told(stamped(PREFILL))
    assert (reading.running, reading.queued, reading.tokens_per_s) == (8, 2, None)
    assert reading.cache_hit == pytest.approx(64 / 876)


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        (("Decode batch, #running-req: 4, #token: 9, token usage: 0.10, accept len: 2.40, accept rate: 0.47, cap len: 1.00, "
         "cuda graph: True, gen throughput (token/s): 55.50, #queue-req: 1"), 0.10),
        (("Decode batch, #running-req: 4, #full token: 8, full token usage: 0.20, #swa token: 3, swa token usage: 0.60, "
         "cuda graph: True, gen throughput (token/s): 55.50, #queue-req: 1"), 0.60),
        (("Decode batch, #running-req: 4, #full token: 8, full token usage: 0.20, mamba num: 3, mamba usage: 0.90, cuda graph: "
         "True, gen throughput (token/s): 55.50, #queue-req: 1"), 0.20),
        (("Decode batch [4711], #running-req: 4, #token: 9, token usage: 0.30, pre-allocated usage: 0.99, #prealloc-req: 1, "
         "npu graph: True, gen throughput (token/s): 55.50, #queue-req: 1, est. decode TFLOPS/s (per GPU): 1.00, something "
         "new: 7"), 0.30),
    ],
    ids=["speculative", "sliding window", "mamba", "counted"],
)  # fmt: skip
def test_lines_of_other_models_and_settings_are_read_alike(line: str, usage: float) -> None:
    reading = told(stamped(line))
    assert (reading.running, reading.queued, reading.tokens_per_s, reading.kv_usage) == (4, 1, 55.5, usage)


def test_ranks_are_summed_once_each() -> None:
    reading = told(
        stamped(DECODE.replace("12", "1"), ranks=" DP0 TP0"),
        stamped(DECODE, ranks=" DP0 TP0"),
        stamped(DECODE, ranks=" DP1 TP4 EP4"),
        stamped(DECODE, ranks=" DP1 PP1 TP4"),
    )
    assert (reading.running, reading.tokens_per_s) == (24, pytest.approx(1975.3))


def test_a_health_checks_prefill_is_no_traffic() -> None:
    assert is_health_check(stamped(HEALTH))
    assert not is_health_check(stamped(PREFILL))
    assert not is_health_check(stamped(HEALTH.replace("#cached-token: 0", "#cached-token: 8")))  # somebody asked again
    assert after(stamped(HEALTH)) is None
    busy = told(stamped(DECODE), stamped(HEALTH))
    assert (busy.running, busy.tokens_per_s) == (12, 987.65)


def test_silence_means_idle() -> None:
    assert told(stamped(PREFILL), stamped(DECODE), seconds=QUIET_S).running == 12
    quiet = told(stamped(PREFILL), stamped(DECODE), seconds=QUIET_S + 1)
    assert (quiet.running, quiet.queued, quiet.kv_usage, quiet.tokens_per_s) == (0, 0, 0.0, 0.0)


def test_prefills_alone_for_long_are_no_decoding() -> None:
    read = BatchLines()
    read.feed(stamped(DECODE), AT)
    later = AT + timedelta(seconds=QUIET_S + 5)
    read.feed(stamped(PREFILL, later), later)
    reading = read.reading(later)
    assert reading is not None
    assert (reading.running, reading.tokens_per_s) == (8, 0.0)


def test_a_rank_that_fell_silent_does_not_hide_another() -> None:
    read = BatchLines()
    read.feed(stamped(DECODE, ranks=" DP0"), AT)
    later = AT + timedelta(seconds=QUIET_S + 5)
    read.feed(stamped(DECODE, later, " DP1"), later)
    reading = read.reading(later)
    assert reading is not None
    assert (reading.running, reading.tokens_per_s) == (12, 987.65)


def test_a_log_read_afterwards_does_not_make_old_work_new() -> None:
    read = BatchLines()
    read.feed(stamped(DECODE, AT - timedelta(hours=2)), AT)
    reading = read.reading(AT)
    assert reading is not None
    assert reading.running == 0


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Prefill batch",
        stamped("Capturing batches (bs=8 avail_mem=20 GB)"),
        stamped('INFO:     127.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK'),
        stamped("the user wrote: Decode batch, #running-req: 12, gen throughput (token/s): 9.0"),
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert after(line) is None


def test_a_broken_line_tells_what_can_be_read_of_it() -> None:
    reading = told("[2026-13-45 99:99:99] Decode batch, #running-req: 7, token usage: x, gen throughput (tok")
    assert (reading.running, reading.kv_usage, reading.tokens_per_s) == (7, None, None)


@given(st.text(max_size=80), st.sampled_from(["Prefill", "Decode"]), st.integers(0, 10**20))
def test_whatever_stands_in_a_line_is_a_reading_that_can_be_kept_or_none(text: str, kind: str, number: int) -> None:
    read = BatchLines()
    for line in (text, f"{kind} batch, {text}", stamped(f"{kind} batch, #running-req: {number}, #queue-req: {text}")):
        read.feed(line, AT)
        reading = read.reading(AT)
        assert reading is None or all(
            count is None or 0 <= count < 2**31 for count in (reading.running, reading.queued)
        )
