"""A disk that is full, a database that is locked: the run stops and says so, and nothing is half-written."""

import asyncio
import dataclasses
import errno
import sqlite3
from collections.abc import Sequence

import pytest

from db.idstore import AttemptIds, IdStore, Key
from inference.runs import runner
from inference.runs.control import resume_run
from tests.support.fake_sglang import Answer, FakeSglang
from tests.support.workshop import Workshop, until


class FailingStore:
    """An id store on a disk that can be full."""

    def __init__(self, real: IdStore) -> None:
        self.real = real
        self.error: Exception | None = None

    def put(self, run_id: int, items: Sequence[tuple[Key, AttemptIds]]) -> None:
        if self.error is not None:
            raise self.error
        self.real.put(run_id, items)

    def __getattr__(self, name: str):
        return getattr(self.real, name)


@pytest.fixture
def store(shop: Workshop) -> FailingStore:
    failing = FailingStore(shop.ctx.ids)
    shop.ctx = dataclasses.replace(shop.ctx, ids=failing)
    return failing


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), sqlite3.OperationalError("database is locked")],
    ids=["full", "locked"],
)
def test_results_that_cannot_be_written_pause_the_run_and_are_written_when_they_can(
    shop: Workshop, store: FailingStore, fake_sglang: FakeSglang, error: Exception
) -> None:
    fake_sglang.script = lambda _call: Answer(delay=0.05)
    run_id = shop.launch(shop.prompts(300), shop.backend(fake_sglang), concurrency=4)

    async def story() -> None:
        working = asyncio.create_task(shop.worked(run_id))
        await until(lambda: any(sample.state == "done" for sample in shop.samples(run_id)))
        store.error = error
        await until(lambda: shop.run(run_id).state == "pausing")
        store.error = None
        await working

    asyncio.run(story())
    run = shop.run(run_id)
    assert (run.state, run.reason_kind) == ("paused", "error")
    assert str(error).rsplit("] ", 1)[-1] in run.reason
    samples = shop.samples(run_id)
    sent = len(fake_sglang.seen("/generate"))
    assert sum(sample.state == "done" for sample in samples) == sent < 300  # what was finished was kept and written
    assert all(shop.ctx.ids.get(run_id, (sample.id, 1)) for sample in samples if sample.state == "done")
    shop.counts(run_id)


def test_disk_that_stays_full_leaves_no_row_without_ids_and_the_work_is_done_again(
    shop: Workshop, store: FailingStore, fake_sglang: FakeSglang, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LAST_WORDS_S", 0.5)
    store.error = OSError(errno.ENOSPC, "No space left on device")
    run_id = shop.launch(shop.prompts(8), shop.backend(fake_sglang))
    shop.work(run_id)
    assert shop.run(run_id).state == "paused"
    assert {(sample.state, sample.attempts) for sample in shop.samples(run_id)} == {("pending", 0)}
    assert shop.attempts(run_id) == []
    shop.counts(run_id)
    store.error = None
    with shop.ctx.db.write() as s:
        resume_run(s, run_id)
    shop.work(run_id)
    assert shop.run(run_id).state == "completed"
    assert {(sample.state, sample.attempts) for sample in shop.samples(run_id)} == {("done", 1)}
