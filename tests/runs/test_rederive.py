"""Segments and flags are views of the ids: they can be made again at any time, and nothing else changes."""

import pytest
from sqlalchemy import delete, update
from sqlmodel import col

from db.errors import Conflict
from db.tables import Attempt, RunCategory, Sample, SampleFlag
from inference.runs.rederive import rederive
from inference.runs.service import list_events
from tests.support.fake_sglang import FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.workshop import Workshop

END = 151645
FIGURES = {"flag_count", "kinds", "preview", "reasoning_tokens"}


def every_other_empty(call: Call) -> list[int]:
    """A thought answer, or one whose think block is empty."""
    return [151667, 4226, 151668, 4226, END] if call.number % 2 else [151667, 151668, 4226, END]


def derived(shop: Workshop, run_id: int) -> dict[int, object]:
    """What is made from the ids, by sample."""
    flags: dict[int, list[object]] = {}
    for flag in shop.flags(run_id):
        flags.setdefault(flag.sample_id, []).append((flag.code, flag.start, flag.end, flag.severity))
    segments = {attempt.sample_id: attempt.segments for attempt in shop.attempts(run_id)}
    return {
        sample.id: (sample.model_dump(include=FIGURES), flags.get(sample.id), segments[sample.id])
        for sample in shop.samples(run_id)
    }


def test_what_was_derived_is_made_again_from_the_ids_alone(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = every_other_empty
    run_id = shop.launch(shop.prompts(10), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    before, kept = derived(shop, run_id), shop.counts(run_id)
    assert sum(row["flagged"] for row in kept.values()) == 5
    with shop.ctx.db.write() as s:  # as if an older version had found nothing
        s.execute(delete(SampleFlag).where(col(SampleFlag.run_id) == run_id))
        s.execute(
            update(Sample)
            .where(col(Sample.run_id) == run_id)
            .values(flag_count=0, kinds=0, preview="", reasoning_tokens=0)
        )
        s.execute(update(Attempt).where(col(Attempt.run_id) == run_id).values(segments=[], flag_count=0))
        s.execute(update(RunCategory).where(col(RunCategory.run_id) == run_id).values(flagged=0))
    assert derived(shop, run_id) != before
    assert rederive(shop.ctx, run_id) == 10
    assert derived(shop, run_id) == before
    assert shop.counts(run_id) == kept
    assert len(fake_sglang.seen("/generate")) == 10
    with shop.ctx.db.read() as s:
        assert list_events(s, run_id).items[0].kind == "rederived"


def test_a_run_that_is_at_work_is_not_rederived(shop: Workshop, fake_sglang: FakeSglang) -> None:
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang))
    with pytest.raises(Conflict) as caught:
        rederive(shop.ctx, run_id)
    assert caught.value.allowed == ("pause", "cancel")
