"""What people read while a server starts and runs, and how rarely it is written."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from db.types import now
from inference.backends.logs.diagnosis import seen_while_alive
from inference.backends.logs.phases import PhaseTracker
from inference.backends.server.readiness import Finding, Proof
from inference.backends.supervision import reporting
from inference.backends.supervision.reporting import Reporter
from inference.backends.supervision.sentences import age, starting_sentence


def life(minutes: float, *lines: str, **changes: Any) -> Any:
    at = now() - timedelta(minutes=minutes)
    tracker = PhaseTracker(at)
    for line in lines:
        tracker.feed(line, at)
    return SimpleNamespace(**{"tracker": tracker, "problem": None, **changes})


def test_a_start_up_that_stands_still_shows_its_last_stage_and_its_age() -> None:
    stuck = life(
        7.5, "Load weight begin.", "Loading pt checkpoint shards:  33% Completed | 5/15 [00:04<00:08, 1.2it/s]"
    )
    assert starting_sentence(stuck, None) == "Loading weights 5/15 for 7 min. The log has been silent for 7 min."
    compiling = life(5, "Capture target decode CUDA graph begin.")
    assert "compiling kernels can take long" in starting_sentence(compiling, None)
    assert starting_sentence(life(0.5, "Init parallel begin."), None) == "Initialising."


def test_what_stands_in_the_way_is_said_first() -> None:
    stranger = Proof(False, (Finding("generation", False, "The server is another one."),), stranger=True)
    assert (
        starting_sentence(life(0, "The server is fired up and ready to roll!"), stranger)
        == "Not ready: The server is another one."
    )
    deaf = Proof(False, (Finding("health", False, "http://127.0.0.1:1/health did not answer."),))
    told = starting_sentence(life(0, "The server is fired up and ready to roll!"), deaf)
    assert told == "The log says ready, but it is not proven: http://127.0.0.1:1/health did not answer."
    full = life(0, problem=seen_while_alive("OSError: [Errno 28] No space left on device"))
    assert starting_sentence(full, None).startswith("Problem seen in the log while the process lives: A disk is full.")


@pytest.mark.parametrize(("minutes", "text"), [(0.9, ""), (1, "1 min"), (119, "119 min"), (125, "2 h")])
def test_ages_are_coarse(minutes: float, text: str) -> None:
    assert age(now() - timedelta(minutes=minutes)) == text


def test_evidence_is_written_when_it_changes_not_at_every_look() -> None:
    written: list[dict[str, Any]] = []

    class Kept:
        def write(self, _: int, **values: Any) -> None:
            written.append(values)

    async def look() -> None:
        reporter = Reporter(Kept(), 1, refresh_s=3600)  # type: ignore[arg-type]  (only `write` is used)
        for _ in range(5):
            reporter.note(Finding("process", True, "alive"))
            await reporter.report("ready", "Ready.")
        reporter.note(Finding("health", False, "503"))
        await reporter.report("ready", "Ready.")
        await reporter.report("unresponsive", "Silent.")

    asyncio.run(look())
    assert [values["state"] for values in written] == ["ready", "ready", "unresponsive"]
    assert [item["source"] for item in written[-1]["evidence"]] == ["process", "health"]


def test_evidence_of_a_server_at_work_is_renewed_sooner_than_that_of_an_idle_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[dict[str, Any]] = []

    class Kept:
        def write(self, _: int, **values: Any) -> None:
            written.append(values)

    async def look() -> None:
        reporter = Reporter(Kept(), 1, refresh_s=3600)  # type: ignore[arg-type]  (only `write` is used)
        reporter.note(Finding("process", True, "alive"))
        await reporter.report("ready", "Ready.")
        monkeypatch.setattr(reporting, "AT_WORK_S", 0.0)
        await reporter.report("ready", "Ready.")
        assert len(written) == 1
        await reporter.report("ready", "Ready.", at_work=True)

    asyncio.run(look())
    assert len(written) == 2
