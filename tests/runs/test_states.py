"""Whatever happens in whatever order, each wanted sample is in one state, its ids are those accepted, and the counters are right."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from db.engine import Database
from db.filters import parse_body
from db.stores import open_id_store
from db.types import now
from inference.context import Context
from inference.runs import runstate
from inference.runs.control import cancel_run, pause_run, regenerate, resume_run, retry_failed
from inference.runs.leases import lease
from inference.runs.outcomes import Ending, Outcome, Work
from inference.runs.planner import plan_batch
from inference.runs.results import write_results
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.support.fake_sglang import Facts
from tests.support.tiny_tokenizers import make_tokenizer
from tests.support.workshop import MODEL, Workshop

REDOABLE = {"running", "paused", "completed", "completed_with_failures", "cancelled", "failed"}
PROMPTS = 5


class Server:
    """Where a backend would be; nothing is sent there."""

    url = "http://127.0.0.1:9"
    facts = Facts()


class RunMachine(RuleBasedStateMachine):
    """A run under a runner that dies, people who change their minds, and results that come when they like."""

    template: Path
    models: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="draftmill-states-"))
        shutil.copyfile(self.template, self.folder / "draftmill.sqlite")
        settings = Settings(_env_file=None, data_dir=self.folder, model_roots=[self.models])
        database = Database(settings.resolved_database_url, synchronous="OFF")
        ids = open_id_store(database, self.folder)
        self.ctx = Context(settings, database, ids, TokenizerCache([self.models], False))
        self.shop = Workshop(self.ctx)
        self.held: list[Work] = []
        self.late: list[Work] = []
        self.attempts: Counter[int] = Counter()
        self.accepted: dict[tuple[int, int], list[int]] = {}
        self.made = 0

    def teardown(self) -> None:
        self.ctx.ids.close()
        self.ctx.db.dispose()
        shutil.rmtree(self.folder)

    @initialize()
    def launch(self) -> None:
        self.run_id = self.shop.launch(self.shop.prompts(PROMPTS), self.shop.backend(Server()), repeats=2)
        self.lens = runstate.open_run(self.ctx, self.run_id)
        while plan_batch(self.ctx, self.run_id, self.lens.settings):
            pass

    @property
    def state(self) -> str:
        return self.shop.run(self.run_id).state

    @precondition(lambda self: self.state == "queued")
    @rule()
    def start(self) -> None:
        runstate.start(self.ctx, self.run_id)

    @rule(count=st.integers(1, 6))
    def take_up(self, count: int) -> None:
        leased = lease(self.ctx, self.run_id, self.lens, count)
        assert not leased.refused
        if self.state != "running":
            assert not leased.ready
        self.held += leased.ready

    def outcome(self, work: Work, ending: Ending) -> Outcome:
        self.made += 1
        output = np.array([10061, 300 + self.made, 151645], dtype=np.uint32) if ending is Ending.DONE else None
        return Outcome(
            work=work,
            ending=ending,
            started_at=now(),
            finished_at=now(),
            number=work.number,
            error_code=None if ending is Ending.DONE else "server_error",
            output_ids=output,
            finish_reason="stop" if ending is Ending.DONE else None,
            finish_matched=151645 if ending is Ending.DONE else None,
            prompt_tokens=len(work.prompt_ids),
            completion_tokens=3 if ending is Ending.DONE else None,
        )

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def results_come(self, data: st.DataObject) -> None:
        """A batch of ends, of samples held and of samples given away long ago."""
        everything = [*self.held, *self.late]
        chosen = data.draw(st.lists(st.sampled_from(range(len(everything))), unique=True, min_size=1, max_size=5))
        batch = [self.outcome(everything[n], data.draw(st.sampled_from(list(Ending)))) for n in chosen]
        before = {sample.id: sample for sample in self.shop.samples(self.run_id)}
        written = write_results(self.ctx, self.run_id, self.lens, batch)
        refused = 0
        for outcome in batch:
            work = outcome.work
            stood = before[work.sample_id]
            if stood.state != "in_flight" or stood.lease != work.lease:
                refused += 1
                continue
            if outcome.ending is not Ending.RELEASED:
                self.attempts[work.sample_id] += 1
                if outcome.output_ids is not None:
                    self.accepted[work.sample_id, outcome.number] = outcome.output_ids.tolist()
            if outcome.ending is Ending.TRIED:
                work.number += 1
            else:
                self.held = [other for other in self.held if other is not work]
                self.late.append(work)
        assert written.refused == refused

    @rule()
    def runner_dies_and_another_takes_over(self) -> None:
        self.late += self.held
        self.held = []
        runstate.recover_all(self.ctx)
        assert all(sample.state != "in_flight" for sample in self.shop.samples(self.run_id))

    @precondition(lambda self: self.state in {"queued", "running"})
    @rule()
    def pause(self) -> None:
        with self.ctx.db.write() as s:
            pause_run(s, self.run_id)

    @precondition(lambda self: self.state == "pausing")
    @rule()
    def pause_ends(self) -> None:
        self.late += self.held
        self.held = []
        runstate.paused(self.ctx, self.run_id)
        assert self.state == "paused"

    @precondition(lambda self: self.state == "paused")
    @rule()
    def resume(self) -> None:
        with self.ctx.db.write() as s:
            resume_run(s, self.run_id)

    @precondition(lambda self: self.state in {"queued", "running", "pausing", "paused"})
    @rule()
    def cancel(self) -> None:
        with self.ctx.db.write() as s:
            cancel_run(s, self.run_id)

    @precondition(lambda self: self.state == "cancelling")
    @rule()
    def cancel_ends(self) -> None:
        self.late += self.held
        self.held = []
        while runstate.skip_batch(self.ctx, self.run_id):
            pass
        runstate.cancelled(self.ctx, self.run_id)
        assert {sample.state for sample in self.shop.samples(self.run_id)} <= {"done", "failed", "skipped"}

    @precondition(lambda self: self.state in REDOABLE)
    @rule(category=st.sampled_from(["a", "b"]))
    def clear_a_category(self, category: str) -> None:
        with self.ctx.db.write() as s:
            regenerate(s, self.ctx, self.run_id, parse_body({"category": [category]}))
        assert all(sample.attempt == 0 for sample in self.shop.samples(self.run_id) if sample.category == category)

    @precondition(
        lambda self: self.state in REDOABLE and any(x.state == "failed" for x in self.shop.samples(self.run_id))
    )
    @rule()
    def retry(self) -> None:
        with self.ctx.db.write() as s:
            retry_failed(s, self.run_id)
        assert all(sample.state != "failed" for sample in self.shop.samples(self.run_id))

    @precondition(lambda self: not self.held)
    @rule()
    def settle(self) -> None:
        before = self.state
        settled = runstate.settle(self.ctx, self.run_id)
        states = {sample.state for sample in self.shop.samples(self.run_id)}
        if settled:
            assert before in {"queued", "running"}
            assert states <= {"done", "failed", "skipped"}
            assert self.state == ("completed_with_failures" if "failed" in states else "completed")

    @invariant()
    def every_sample_is_there_once_and_adds_up(self) -> None:
        if not hasattr(self, "run_id"):
            return
        samples = self.shop.samples(self.run_id)
        assert len({(sample.prompt_id, sample.repeat) for sample in samples}) == len(samples) == PROMPTS * 2
        rows = Counter(attempt.sample_id for attempt in self.shop.attempts(self.run_id))
        for sample in samples:
            assert rows[sample.id] == sample.attempts == self.attempts[sample.id]
            assert (sample.attempt == 0) == (sample.state not in {"done", "failed"})
            if sample.state == "done":
                stored = self.ctx.ids.get(self.run_id, (sample.id, sample.attempt))
                assert stored.output_ids.tolist() == self.accepted[sample.id, sample.attempt]
        for (sample_id, number), output in self.accepted.items():
            assert self.ctx.ids.get(self.run_id, (sample_id, number)).output_ids.tolist() == output
        self.shop.counts(self.run_id)


def test_no_order_of_events_loses_doubles_or_miscounts_a_sample(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"DRAFTMILL_{name.upper()}", raising=False)
    make_tokenizer(tmp_path / MODEL)
    machine = type("Machine", (RunMachine,), {"template": sqlite_template, "models": tmp_path})
    run_state_machine_as_test(
        machine,
        settings=hypothesis_settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
