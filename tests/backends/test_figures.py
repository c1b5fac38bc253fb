"""Live figures are what the server says, from whichever source it has; what none of them tells is no zero."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from db.types import now
from inference.backends.server.client import SglangClient
from inference.backends.server.figures import Rank, Reading, gathered
from inference.backends.server.loads import _memories, _Memory, read_figures, read_loads
from inference.backends.server.metrics import SERIES, read_metrics
from tests.support.fake_sglang import FakeSglang

pytestmark = pytest.mark.anyio

RECORDED = json.loads((Path(__file__).parent / "recorded" / "loads.json").read_text())
"""What a real server answered, idle, without --enable-metrics"""

KEYS = ("timestamp", "dp_rank", "num_running_reqs", "num_waiting_reqs", "token_usage", "max_total_num_tokens", "gen_throughput",
        "cache_hit_rate", "decode_moments")  # fmt: skip

METRICS = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="a \\"b\\", {c}",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 12.0
# HELP sglang:num_queue_reqs The number of requests in the waiting queue.
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="a \\"b\\", {c}",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 3.0
sglang:token_usage{engine_type="unified",model_name="a \\"b\\", {c}",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.25
sglang:gen_throughput{engine_type="unified",model_name="a \\"b\\", {c}",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 987.65
sglang:cache_hit_rate{engine_type="unified",model_name="a \\"b\\", {c}",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.5
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 4.0
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def client(fake_sglang: FakeSglang) -> AsyncIterator[SglangClient]:
    async with SglangClient(fake_sglang.url) as made:
        yield made


def loads(*ranks: dict[str, Any], at: str = "2026-11-30T06:51:36+00:00") -> dict[str, Any]:
    written = 1796021496.0  # the same moment
    plain = {"timestamp": written, "num_running_reqs": 0, "num_waiting_reqs": 0, "token_usage": 0.0}
    given = [{**plain, "dp_rank": number, **rank} for number, rank in enumerate(ranks)]
    return {"timestamp": at, "version": "0.5.23", "loads": given}


def read(answer: Any) -> Reading:
    reading = read_loads(answer)
    assert reading is not None
    return reading


def test_a_recorded_answer_of_an_idle_server_reads_as_idle() -> None:
    reading = read(RECORDED)
    assert (reading.source, reading.running, reading.queued, reading.kv_usage) == ("loads", 0, 0, 0.0)
    assert reading.tokens_per_s == 0.0
    assert reading.cache_hit is None  # 0 in the answer, since it has no metrics: not told
    assert reading.stale_s == pytest.approx(0.0003, abs=0.001)
    assert reading.idle


def test_ranks_are_summed_and_their_caches_averaged_by_capacity() -> None:
    reading = read(
        loads(
            {"num_running_reqs": 3, "num_waiting_reqs": 1, "token_usage": 0.9, "max_total_num_tokens": 1000,
             "gen_throughput": 100.5, "cache_hit_rate": 0.2},
            {"num_running_reqs": 5, "num_waiting_reqs": 0, "token_usage": 0.1, "max_total_num_tokens": 3000,
             "gen_throughput": 200.0, "cache_hit_rate": 0.4},
        )
    )  # fmt: skip
    assert (reading.running, reading.queued, reading.tokens_per_s) == (8, 1, 300.5)
    assert reading.kv_usage == pytest.approx(0.3)
    assert reading.cache_hit == pytest.approx(0.3)
    assert reading.flowing


def test_a_hung_servers_last_snapshot_is_old_and_tells_no_speed() -> None:
    reading = read(loads({"num_running_reqs": 3, "gen_throughput": 800.0}, at="2026-11-30T06:52:36+00:00"))
    assert reading.stale_s == pytest.approx(60)
    assert (reading.running, reading.tokens_per_s) == (3, None)
    assert not reading.fresh
    assert not reading.flowing
    assert not reading.idle


def test_one_hung_rank_of_several_makes_the_whole_old() -> None:
    late = {"num_running_reqs": 1, "timestamp": 1796021496.0 - 45}
    assert read(loads({"num_running_reqs": 1}, late)).stale_s == pytest.approx(45)


def test_a_rank_that_never_wrote_does_not_make_the_others_old() -> None:
    assert read(loads({}, {"timestamp": 0.0})).stale_s == pytest.approx(0)


@pytest.mark.parametrize(
    "answer",
    [None, [], "x", {}, {"loads": None}, {"loads": []}, {"loads": ["x"]}, {"loads": [{"dp_rank": 0}]},
     {"loads": [{"num_running_reqs": "3"}]}, {"loads": [{"num_running_reqs": True}]}],
)  # fmt: skip
def test_an_answer_of_another_shape_is_no_reading(answer: Any) -> None:
    assert read_loads(answer) is None


def test_numbers_that_are_none_are_not_told() -> None:
    broken = {"num_running_reqs": 1, "num_waiting_reqs": -1, "token_usage": float("nan"), "cache_hit_rate": "x"}
    reading = read({"timestamp": "yesterday", "loads": [broken]})
    assert (reading.running, reading.queued, reading.kv_usage, reading.cache_hit) == (1, None, None, None)
    assert reading.stale_s is None


async def test_a_server_without_metrics_tells_its_speed_by_its_counter(
    fake_sglang: FakeSglang, client: SglangClient
) -> None:
    def answer(at: float, tokens: float) -> dict[str, Any]:
        rank = {"num_running_reqs": 2, "gen_throughput": 0.0, "cache_hit_rate": 0.0, "timestamp": 1796021496.0 + at}
        moments = [2.0, 2.0, 44794.0, 2.0, 44794.0, tokens]
        return loads({**rank, "decode_moments": moments}, at=f"2026-11-30T06:51:{36 + at:.0f}+00:00")

    speeds = []
    for at, tokens in ((0, 1000.0), (4, 1200.0), (4, 1200.0), (6, 1200.0), (8, 10.0)):
        fake_sglang.knobs.loads = answer(at, tokens)
        reading = await read_figures(client)
        assert reading is not None
        assert reading.cache_hit is None
        speeds.append(reading.tokens_per_s)
    assert speeds == [None, 50.0, None, 0.0, None]  # the first; 200 in 4 s; the same snapshot; nothing; another server


async def test_the_servers_own_speed_is_preferred_where_it_has_metrics(
    fake_sglang: FakeSglang, client: SglangClient
) -> None:
    fake_sglang.knobs.loads = loads({"num_running_reqs": 2, "gen_throughput": 77.0, "cache_hit_rate": 0.0})
    reading = await read_figures(client)
    assert reading is not None
    assert (reading.tokens_per_s, reading.cache_hit) == (77.0, 0.0)


async def test_metrics_are_read_where_there_are_no_loads(fake_sglang: FakeSglang, client: SglangClient) -> None:
    fake_sglang.knobs.missing = {"/v1/loads"}
    fake_sglang.knobs.metrics = METRICS
    reading = await read_figures(client)
    assert reading is not None
    assert (reading.source, reading.running, reading.queued) == ("metrics", 12, 3)
    assert (reading.kv_usage, reading.tokens_per_s, reading.cache_hit) == (0.25, 987.65, 0.5)
    fake_sglang.knobs.missing = set()
    reading = await read_figures(client)
    assert reading is not None
    assert reading.source == "metrics"  # it is remembered what the server has


async def test_figures_of_work_that_never_change_are_old_though_their_page_answers(
    fake_sglang: FakeSglang, client: SglangClient
) -> None:
    fake_sglang.knobs.missing = {"/v1/loads"}
    fake_sglang.knobs.metrics = METRICS
    await read_figures(client)
    _memories[client].same_since -= 60
    reading = await read_figures(client)
    assert reading is not None
    assert (reading.running, reading.tokens_per_s, reading.fresh) == (12, None, False)
    fake_sglang.knobs.metrics = METRICS.replace("987.65", "980.0")
    reading = await read_figures(client)
    assert reading is not None
    assert (reading.tokens_per_s, reading.fresh) == (980.0, True)


async def test_a_server_with_neither_tells_nothing_and_is_not_asked_all_the_time(
    fake_sglang: FakeSglang, client: SglangClient
) -> None:
    fake_sglang.knobs.missing = {"/v1/loads"}
    assert await read_figures(client) is None
    fake_sglang.knobs.missing = set()
    assert await read_figures(client) is None  # not asked again yet


async def test_a_server_that_is_gone_tells_nothing_and_raises_nothing(fake_sglang: FakeSglang) -> None:
    async with SglangClient("http://127.0.0.1:9") as nobody:
        assert await read_figures(nobody) is None
    async with SglangClient(fake_sglang.url) as client:
        assert await read_figures(client) is not None


def test_ranks_of_one_scheduler_count_once_and_priorities_are_not_added_to_their_total() -> None:
    def line(rank: str, priority: str | None, value: int, dp: str = "0") -> str:
        extra = "" if priority is None else f',priority="{priority}"'
        return f'sglang:num_running_reqs{{dp_rank="{dp}",model_name="m",tp_rank="{rank}"{extra}}} {value}.0\n'

    text = line("0", "", 5) + line("0", "1", 3) + line("0", "2", 2) + line("1", "", 5) + line("4", "1", 7, dp="1")
    assert [rank.running for rank in read_metrics(text)] == [5, 7]


def test_lines_that_cannot_be_read_are_passed_over() -> None:
    text = 'sglang:num_running_reqs{a="b\nsglang:num_running_reqs{} NaN\nsglang:num_queue_reqs 4\nnonsense\n\0\n'
    assert read_metrics(text) == []
    assert [rank.running for rank in read_metrics(text + "sglang:num_running_reqs 1\n")] == [1]
    assert read_metrics("<html>not found</html>") == []


def test_a_reading_takes_from_another_only_what_it_does_not_tell() -> None:
    told = Reading(now(), "loads", 3, 0, 0.5, None, None, 0.1)
    other = Reading(now(), "log", 9, 9, 0.9, 12.0, 0.25)
    filled = told.filled(other)
    assert (filled.source, filled.running, filled.tokens_per_s, filled.cache_hit) == ("loads", 3, 12.0, 0.25)
    assert told.filled(None) == told
    old = Reading(now(), "loads", 3, 0, 0.5, None, None, 60.0)
    assert old.filled(other) == old  # what is new beside what is old would be neither


def test_a_reading_says_in_words_what_it_tells_and_whether_that_is_old() -> None:
    assert str(Reading(now(), "loads", 3, 1)) == "3 running, 1 waiting, by /v1/loads."
    assert str(Reading(now(), "log", 0)) == "0 running, by the log."
    assert "it wrote that a while ago" in str(Reading(now(), "metrics", 3, 1, stale_s=60.0))
    assert str(Reading(now(), "loads")) == "Not told what is running, by /v1/loads."


def test_no_rank_tells_nothing() -> None:
    assert gathered([Rank()], now(), "log", None).values() == (None,) * 6


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8), max_size=3), JSON)
@example([{"num_running_reqs": 1, "timestamp": 5.0, "dp_rank": [], "decode_moments": [1.0] * 6}], "x")
@example([{"num_running_reqs": 1e300, "gen_throughput": 1.7e308}] * 2, None)
def test_whatever_a_server_answers_is_a_reading_that_can_be_kept_or_none(loads: list[Any], at: Any) -> None:
    memory = _Memory()
    for _ in range(2):
        reading = read_loads({"timestamp": at, "loads": loads}, memory)
        if reading is not None:
            assert all(count is None or 0 <= count < 2**31 for count in (reading.running, reading.queued))
            assert all(share is None or 0 <= share <= 1 for share in (reading.kv_usage, reading.cache_hit))
            assert reading.tokens_per_s is None or 0 <= reading.tokens_per_s < float("inf")
            json.dumps(reading.to_json(), allow_nan=False)


@given(st.text(max_size=60), st.sampled_from(list(SERIES)))
def test_whatever_stands_on_a_metrics_page_raises_nothing(text: str, name: str) -> None:
    for line in (text, name + text, f"{name}{{{text}}} 1", f"{name} {text}"):
        for rank in read_metrics(line):
            assert gathered([rank], now(), "metrics", None).running is not None
