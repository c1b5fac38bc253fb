"""Behind the runs the worker checks text and rederives, killed at any moment: what is left is found again, and nothing doubles."""

import random
import time

from inference.runs.behind.rederivations import request_rederive
from inference.settings import Settings
from inference.worker.checking import BUSY, LONGEST_REST, rest_after
from tests.support.fake_sglang import FolderVocabulary
from tests.support.worker_nursery import Nursery
from tests.support.worker_process import WorkerProcess
from tests.support.workshop import MODEL, Workshop
from tests.worker.test_kill import Script, wait_for

KILLS = 8
SEED = 7


def test_a_worker_killed_behind_a_run_leaves_nothing_unchecked_and_doubles_no_flag(
    shop: Workshop, settings: Settings, start_fake_sglang
) -> None:
    chance = random.Random(SEED)
    fake = start_fake_sglang(vocabulary=FolderVocabulary(settings.model_roots[0] / MODEL), script=Script())
    fake.facts.model_path = fake.facts.tokenizer_path = MODEL
    checks = {"retokenization_drift": True}  # made-up ids hardly ever encode back: each answer is flagged, once
    run_id = shop.launch(shop.prompts(400), shop.backend(fake), guard=None, checks=checks)
    shop.work(run_id)
    url = shop.ctx.db.url.render_as_string(hide_password=False)
    seen: list[int] = []
    nursery = Nursery(settings, url)
    try:
        for _ in range(KILLS):
            worker = nursery.start()
            try:
                before = shop.view(run_id).checked
                if before.complete:
                    with shop.ctx.db.write() as s:
                        if shop.view(run_id).rederivation is None:
                            request_rederive(s, shop.ctx, run_id)
                wait_for(lambda: any("worker_started" in line for line in worker.lines), worker, step=0.002)  # noqa: B023
                time.sleep(chance.uniform(0.0, 0.4))
            finally:
                worker.kill()
            view = shop.view(run_id)
            seen.append(view.checked.done)
            shop.counts(run_id)
    finally:
        nursery.close()
    assert seen == sorted(seen)
    if shop.view(run_id).rederivation is None:
        shop.catch_up()
        with shop.ctx.db.write() as s:
            request_rederive(s, shop.ctx, run_id)
    worker = WorkerProcess(settings, url)
    try:
        wait_for(lambda: shop.view(run_id).rederivation.state == "done" and shop.view(run_id).checked.complete, worker)
        assert worker.leave() == 0
    finally:
        worker.kill()
    drifted = [row.sample_id for row in shop.flags(run_id) if row.code == "retokenization_drift"]
    assert len(drifted) == len(set(drifted)) > 200
    job = shop.view(run_id).rederivation
    assert (job.done, job.total) == (400, 400)
    assert job.before == job.after
    shop.counts(run_id)


def test_checks_rest_beside_a_busy_worker_and_not_beside_an_idle_one() -> None:
    assert rest_after(0.1, 0.0) == 0.0
    assert rest_after(0.1, BUSY) == rest_after(0.1, 4 * BUSY) == 0.1 * LONGEST_REST
    assert 0 < rest_after(0.1, BUSY / 10) < rest_after(0.1, BUSY / 5)
