"""An attached server is judged as our own is, but for its process and log: by tokens, and by a token of ours only when idle."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import select

from db.tables import Backend, BackendEvent
from inference.backends.server.client import GenerateError, SglangClient
from tests.backends.conftest import HURRIED, Lab
from tests.support.fake_sglang import Answer, FakeSglang

CANARY = [0]


def canaries(fake: FakeSglang) -> int:
    """How many requests of one token it was sent by the watch."""
    return sum(1 for seen in fake.seen("/generate") if seen.body["input_ids"] == CANARY)


def looks(fake: FakeSglang) -> int:
    return len(fake.seen("/v1/loads"))


def events(lab: Lab, kind: str) -> list[str]:
    with lab.db.read() as s:
        return list(s.exec(select(BackendEvent.message).where(BackendEvent.kind == kind)))


@contextmanager
def at_work(fake: FakeSglang) -> Iterator[None]:
    """Somebody else's request, which takes as long as the block."""
    usual, loop = fake.script, asyncio.new_event_loop()
    fake.script = lambda call: Answer(hang=True) if call.prompt_ids != CANARY else None

    async def ask() -> None:
        async with SglangClient(fake.url) as client:
            with suppress(GenerateError):
                await client.generate([5, 6, 7], {"max_new_tokens": 5}, "f" * 32)

    thread = threading.Thread(target=lambda: loop.run_until_complete(ask()))
    thread.start()
    try:
        asyncio.run(fake.until_live(1))
        yield
    finally:
        fake.script = usual
        asyncio.run(_abort(fake))
        thread.join()
        loop.close()


async def _abort(fake: FakeSglang) -> None:
    async with SglangClient(fake.url) as client:
        await client.abort("f" * 32)


def ready(lab: Lab, fake: FakeSglang) -> int:
    far = lab.attach(fake.url)
    lab.ask(far, "start")
    lab.wait(far, lambda row: row.observed_state == "ready" and row.probe)
    return far


def test_an_idle_server_is_asked_for_a_token_and_a_working_one_is_not(lab: Lab, fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.throughput = 50.0
    with lab.supervising():
        far = ready(lab, fake_sglang)
        begun = canaries(fake_sglang)
        lab.wait(far, lambda _row: canaries(fake_sglang) >= begun + 2)
        with at_work(fake_sglang):
            lab.wait(far, lambda row: "at work" in row.message)
            asked, health, seen = canaries(fake_sglang), len(fake_sglang.seen("/ready")), looks(fake_sglang)
            lab.wait(far, lambda _row: looks(fake_sglang) >= seen + 12)
            assert canaries(fake_sglang) == asked
            assert len(fake_sglang.seen("/ready")) == health
            row = lab.row(far)
            assert row.observed_state == "ready"
            assert (row.figures or {})["running"] == 1
        lab.wait(far, lambda _row: canaries(fake_sglang) > asked)


def test_a_server_that_works_in_silence_is_busy_and_after_long_it_is_not(lab: Lab, fake_sglang: FakeSglang) -> None:
    with lab.supervising(replace(HURRIED, quiet_s=0.3, busy_limit_s=2.0)):
        far = ready(lab, fake_sglang)
        with at_work(fake_sglang):
            row = lab.wait(far, lambda row: "busy" in row.message)
            assert row.observed_state == "ready"
            row = lab.wait(far, "unresponsive")
            assert "looks hung" in row.message
            assert "kill" not in row.message
        lab.wait(far, "ready")


def test_an_idle_server_that_does_not_generate_is_unresponsive_until_it_does(lab: Lab, fake_sglang: FakeSglang) -> None:
    hung = threading.Event()
    fake_sglang.script = lambda _call: Answer(hang=True) if hung.is_set() else None
    with lab.supervising(replace(HURRIED, canary_timeout_s=0.3, first_generate_s=0.5)):
        far = ready(lab, fake_sglang)
        hung.set()
        row = lab.wait(far, "unresponsive")
        assert "generation" in row.message or "request by ids" in row.message
        hung.clear()
        lab.wait(far, "ready")
    assert events(lab, "server_changed") == []


def test_a_server_that_dies_at_work_is_not_taken_for_busy(lab: Lab, fake_sglang: FakeSglang) -> None:
    fake_sglang.knobs.throughput = 50.0
    with lab.supervising():
        far = ready(lab, fake_sglang)
        with at_work(fake_sglang):
            lab.wait(far, lambda row: "at work" in row.message)
            fake_sglang.stop()
            row = lab.wait(far, "unresponsive")
            assert fake_sglang.url in row.message
            fake_sglang.restart()
        lab.wait(far, "ready")


def test_one_that_tells_no_figures_and_answers_late_is_busy_before_it_is_called_hung(
    lab: Lab, fake_sglang: FakeSglang
) -> None:
    fake_sglang.knobs.missing = {"/v1/loads", "/metrics"}
    slow = threading.Event()
    fake_sglang.script = lambda _call: Answer(hang=True) if slow.is_set() else None
    with lab.supervising(replace(HURRIED, canary_timeout_s=0.2, busy_limit_s=2.5)):
        far = ready(lab, fake_sglang)
        slow.set()
        row = lab.wait(far, lambda row: "busy" in row.message)
        assert row.observed_state == "ready"
        lab.wait(far, "unresponsive")
        slow.clear()
        lab.wait(far, lambda row: row.observed_state == "ready" and "busy" not in row.message)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("weight_version", "step-2", "weights step-2, before default"),
        ("model_path", "models/other", "model models/other"),
    ],
)
def test_what_changes_behind_the_address_is_noticed_said_and_probed_again(
    lab: Lab, fake_sglang: FakeSglang, name: str, value: str, said: str
) -> None:
    probes: list[str] = []

    async def prober(client: SglangClient, row: Backend) -> dict[str, Any]:
        probes.append(str((row.server_info or {}).get(name)))
        return {"ok": True, "refusals": [], "checks": [], "weight_versions": [fake_sglang.facts.weight_version]}

    with lab.supervising(prober=prober):
        far = ready(lab, fake_sglang)
        before = getattr(fake_sglang.facts, name)
        setattr(fake_sglang.facts, name, value)
        row = lab.wait(far, lambda row: len(probes) == 2 and row.probe)
        assert (row.server_info or {})[name] == value
    assert probes == [before, value]
    (message,) = events(lab, "server_changed")
    assert said in message
    assert "probed again" in message


def test_a_server_that_came_back_as_it_was_is_not_probed_again(lab: Lab, fake_sglang: FakeSglang) -> None:
    probes: list[int] = []

    async def prober(client: SglangClient, row: Backend) -> dict[str, Any]:
        probes.append(row.id or 0)
        return {"ok": True, "refusals": [], "checks": []}

    with lab.supervising(prober=prober):
        far = ready(lab, fake_sglang)
        fake_sglang.stop()
        lab.wait(far, "unresponsive")
        fake_sglang.restart()
        lab.wait(far, "ready")
    assert len(probes) == 1
    assert events(lab, "server_changed") == []


def test_a_wrong_key_is_said_as_such(lab: Lab, fake_sglang: FakeSglang) -> None:
    fake_sglang.facts.api_key = "sesame"
    with lab.supervising():
        far = lab.attach(fake_sglang.url, api_key="open")
        lab.ask(far, "start")
        row = lab.wait(far, "unresponsive")
        assert "refuses the API key" in row.message
    assert "open" not in row.message.replace("opens", "")


def test_stopping_only_ends_the_watch(lab: Lab, fake_sglang: FakeSglang) -> None:
    with lab.supervising():
        far = ready(lab, fake_sglang)
        lab.ask(far, "stop")
        lab.wait(far, "stopped")
        lab.wait(far, lambda row: row.figures is None)
    assert not fake_sglang.dead
    assert fake_sglang.seen("/abort_request") == []


def test_what_a_server_says_of_itself_keeps_nobody_from_writing_down_that_it_is_ready(
    lab: Lab, fake_sglang: FakeSglang
) -> None:
    fake_sglang.facts.version = ["0.5", 23]  # of another kind, or another version: anything may be said
    fake_sglang.facts.model_path = "/models/" + "m" * 700
    with lab.supervising():
        row = lab.row(ready(lab, fake_sglang))
        assert (row.version, row.model) == (None, "/models/" + "m" * 492)
