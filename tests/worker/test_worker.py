"""The worker as a process: one per data directory, gone with the app, found again with its runs."""

import os
import time
from pathlib import Path

import psycopg
import pytest

from db.engine import Database
from db.exclusive import exclusive
from inference.runs.control import get_run
from inference.settings import Settings
from inference.worker.lock import AlreadyRunning, worker_lock
from tests.support.fake_sglang import Answer, FolderVocabulary
from tests.support.worker_process import WorkerProcess
from tests.support.workshop import MODEL, Workshop
from tests.worker.test_kill import wait_for


@pytest.fixture
def url(shop: Workshop) -> str:
    return shop.ctx.db.url.render_as_string(hide_password=False)


@pytest.fixture
def fake(settings: Settings, shop: Workshop, start_fake_sglang):
    server = start_fake_sglang(vocabulary=FolderVocabulary(settings.model_roots[0] / MODEL))
    server.facts.model_path = server.facts.tokenizer_path = MODEL
    return server


@pytest.mark.parametrize("way", ["leave", "terminate"])
def test_worker_whose_app_is_gone_writes_what_is_finished_and_goes(
    shop: Workshop, settings: Settings, url: str, fake, way: str
) -> None:
    fake.script = lambda call: Answer(hang=call.number > 20, delay=0.01)
    run_id = shop.launch(shop.prompts(60), shop.backend(fake), concurrency=4, guard=None)
    worker = WorkerProcess(settings, url)
    try:
        wait_for(lambda: fake.model.count >= 24, worker)
        assert getattr(worker, way)() == 0
    finally:
        worker.kill()
    states = [sample.state for sample in shop.samples(run_id)]
    answered = sum(seen.status == 200 for seen in fake.seen("/generate"))
    assert states.count("in_flight") == 0
    assert states.count("done") >= 16
    assert states.count("done") <= answered
    assert shop.run(run_id).state == "running"
    assert not fake.dead
    shop.counts(run_id)


def test_second_worker_waits_for_the_first_to_end(shop: Workshop, settings: Settings, url: str) -> None:
    first = WorkerProcess(settings, url)
    second = None
    try:
        wait_for(lambda: first.said("worker_started"), first)
        second = WorkerProcess(settings, url)
        wait_for(lambda: second.said("waiting_for_the_other_worker"), second)
        first.kill()
        wait_for(lambda: second.said("worker_started"), second)
        assert second.leave() == 0
    finally:
        first.kill()
        if second is not None:
            second.kill()


def test_a_worker_of_another_data_directory_on_the_same_database_stands_by_and_says_so(
    shop: Workshop, settings: Settings, url: str, tmp_path: Path
) -> None:
    other = tmp_path / "other-data"
    other.mkdir()
    first = WorkerProcess(settings, url)
    second = None
    try:
        wait_for(lambda: first.said("worker_started"), first)
        second = WorkerProcess(settings.model_copy(update={"data_dir": other}), url)
        wait_for(lambda: second.said("worker_stands_by"), second)
        assert not second.said("worker_started")
        reason = next(entry["reason"] for entry in second.log if entry["event"] == "worker_stands_by")
        assert "another worker" in reason
        assert str(first.process.pid) in reason
        first.kill()
        wait_for(lambda: second.said("worker_started"), second)
        assert second.leave() == 0
    finally:
        first.kill()
        if second is not None:
            second.kill()


def test_a_worker_that_stands_by_leaves_with_its_app(
    shop: Workshop, settings: Settings, url: str, tmp_path: Path
) -> None:
    other = tmp_path / "other-data"
    other.mkdir()
    with exclusive(Database(url)):
        second = WorkerProcess(settings.model_copy(update={"data_dir": other}), url)
        try:
            wait_for(lambda: second.said("worker_stands_by"), second)
            assert second.leave() == 0
        finally:
            second.kill()


@pytest.mark.postgres
def test_a_worker_whose_hold_on_the_database_is_lost_lets_go(
    settings: Settings, postgres_database: Database, data_dir: Path
) -> None:
    url = postgres_database.url.render_as_string(hide_password=False)
    worker = WorkerProcess(settings, url)
    try:
        wait_for(lambda: worker.said("worker_started"), worker)
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        assert worker.process.wait(60) == 4
    finally:
        worker.kill()


def test_lock_that_is_not_given_up_is_named_with_its_holder(tmp_path) -> None:
    with worker_lock(tmp_path):
        begun = time.monotonic()
        with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"), worker_lock(tmp_path, wait_s=0.3):
            pass
        assert time.monotonic() - begun >= 0.3
    with worker_lock(tmp_path):
        pass


def test_runs_that_were_being_paused_or_cancelled_when_the_worker_died_get_there(
    shop: Workshop, settings: Settings, url: str, fake
) -> None:
    backend_id, prompts = shop.backend(fake), shop.prompts(10)
    states = {}
    for state in ("pausing", "cancelling"):
        run_id = shop.launch(prompts, backend_id)
        states[run_id] = state
        with shop.ctx.db.write() as s:
            run = get_run(s, run_id)
            run.state, run.reason_kind, run.reason = state, "person", "because"
            s.add(run)
    worker = WorkerProcess(settings, url)
    try:
        ends = {run_id: {"pausing": "paused", "cancelling": "cancelled"}[state] for run_id, state in states.items()}
        wait_for(lambda: all(shop.run(run_id).state == end for run_id, end in ends.items()), worker)
        assert worker.leave() == 0
    finally:
        worker.kill()
    assert {shop.run(run_id).reason for run_id in states} == {"because"}
