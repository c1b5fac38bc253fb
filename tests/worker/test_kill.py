"""The worker is killed at any moment: every finished sample is there, whole, once; what was in flight is done again."""

import random
import time

from inference.settings import Settings
from tests.support.fake_sglang import Answer, FolderVocabulary
from tests.support.fake_sglang.script import Call
from tests.support.worker_nursery import Nursery, NurseryWorker
from tests.support.worker_process import WorkerProcess
from tests.support.workshop import MODEL, Workshop

KILLS = 20
SAMPLES = 600
SEED = 20261130
END = 151645


class Script:
    """Answers that no two requests share, remembered by request id."""

    def __init__(self) -> None:
        self.sent: dict[str, list[int]] = {}
        self.chance = random.Random(SEED)

    def __call__(self, call: Call) -> Answer:
        words = [300 + int(digit) for digit in str(call.number)]
        ids = [151667, *words, 151668, *[self.chance.randrange(100, 600) for _ in range(20)], END]
        self.sent[call.rid] = ids
        return Answer(output_ids=ids, delay=self.chance.uniform(0.01, 0.12))


def wait_for(condition, worker: WorkerProcess | NurseryWorker, seconds: float = 120, step: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert worker.alive, worker.lines[-20:]
        assert time.monotonic() < deadline, worker.lines[-20:]
        time.sleep(step)


def finished(shop: Workshop, run_id: int) -> dict[int, tuple[int, list[int]]]:
    """What is done: sample → (lease, output ids)."""
    done = [sample for sample in shop.samples(run_id) if sample.state == "done"]
    stored = dict(shop.ctx.ids.get_many(run_id, [(sample.id, sample.attempt) for sample in done]))
    return {sample.id: (sample.lease, stored[sample.id, sample.attempt].output_ids.tolist()) for sample in done}


def test_killed_worker_loses_no_finished_sample_and_doubles_none(
    shop: Workshop, settings: Settings, start_fake_sglang
) -> None:
    chance = random.Random(SEED)
    script = Script()
    fake = start_fake_sglang(vocabulary=FolderVocabulary(settings.model_roots[0] / MODEL), script=script)
    fake.facts.model_path = fake.facts.tokenizer_path = MODEL
    run_id = shop.launch(shop.prompts(SAMPLES // 2), shop.backend(fake), repeats=2, concurrency=8, guard=None)
    url = shop.ctx.db.url.render_as_string(hide_password=False)
    before: dict[int, tuple[int, list[int]]] = {}
    killed_at_work = 0
    nursery = Nursery(settings, url)
    try:
        for _ in range(KILLS):
            worker = nursery.start()
            try:
                if chance.random() < 0.8:
                    seen = fake.model.count
                    more = chance.randrange(1, 30)
                    wait_for(lambda seen=seen, more=more: fake.model.count >= seen + more, worker, step=0.002)
                    killed_at_work += 1
                time.sleep(chance.uniform(0.0, 0.3))
            finally:
                worker.kill()
            now = finished(shop, run_id)
            assert before.items() <= now.items()
            before = now
    finally:
        nursery.close()
    assert killed_at_work >= KILLS // 2
    assert len(before) < SAMPLES
    worker = WorkerProcess(settings, url)
    try:
        wait_for(lambda: shop.run(run_id).state == "completed", worker)
        assert worker.leave() == 0
    finally:
        worker.kill()
    after = finished(shop, run_id)
    assert before.items() <= after.items()
    samples = shop.samples(run_id)
    assert len({(sample.prompt_id, sample.repeat) for sample in samples}) == len(samples) == SAMPLES
    assert {(sample.state, sample.attempt, sample.attempts) for sample in samples} == {("done", 1, 1)}
    attempts = shop.attempts(run_id)
    assert [(attempt.sample_id, attempt.number) for attempt in attempts] == [(sample.id, 1) for sample in samples]
    for attempt in attempts:
        assert after[attempt.sample_id][1] == script.sent[attempt.rid]
    assert fake.model.count >= SAMPLES
    counts = shop.counts(run_id)
    assert sum(row["done"] for row in counts.values()) == SAMPLES
