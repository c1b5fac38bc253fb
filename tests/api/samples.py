"""A run with answers, made by hand: what REST shows does not depend on who generated it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import FastAPI

from db.idstore import AttemptIds
from db.tables import Attempt, Prompt, PromptBody, PromptSet, Run, RunCategory, Sample
from inference.runs.settings import SAMPLING_DEFAULTS, RunSettings, Sampling


@dataclass(frozen=True)
class Seeded:
    """Ids of what was made."""

    run_id: int
    prompt_set_id: int
    sample_ids: list[int]


def settings_of(prompt_set_id: int) -> dict[str, Any]:
    """Settings as a launch freezes them; the tokenizer's folder is gone."""
    return RunSettings(
        prompt_set_id=prompt_set_id, backend_ids=(), model=None, tokenizer="/no/such/folder", tokenizer_sha256="0" * 64,
        template_sha256=None, vocab_size=300_000, stop_ids=(6,), token_format="none", sampling=Sampling(**SAMPLING_DEFAULTS), seed=1,
        chat_template_kwargs={}, context_length=4096, max_prompt_tokens=4000, repeats=1, categories=None, limit=None, concurrency=8,
        timeout_s=60, tries=3, guard=None,
    ).model_dump(mode="json")  # fmt: skip


def seed_run(app: FastAPI, count: int = 6, *, state: str = "completed") -> Seeded:
    """A run of `count` done samples in the categories a and b by turns; lengths 10, 20, 30 and so on."""
    ctx = app.state.context
    with ctx.db.write() as session:
        prompts = PromptSet(
            name="seed", state="ready", accepted=count, categories={"a": count - count // 2, "b": count // 2}
        )
        session.add(prompts)
        session.flush()
        run = Run(name="seeded", prompt_set_id=prompts.id, state=state, settings=settings_of(prompts.id), planned=True)
        session.add(run)
        session.flush()
        samples = []
        for number in range(count):
            category = "ab"[number % 2]
            prompt = Prompt(
                prompt_set_id=prompts.id, line=number + 1, source_id=f"p{number}", category=category, preview="hi"
            )
            session.add(prompt)
            session.flush()
            session.add(PromptBody(prompt_id=prompt.id, messages='[{"role": "user", "content": "hi"}]'))
            figures = {"finish_reason": "stop", "prompt_tokens": 3, "completion_tokens": 10 * (number + 1)}
            sample = Sample(
                run_id=run.id,
                prompt_id=prompt.id,
                source_id=prompt.source_id,
                category=category,
                state="done",
                attempt=1,
                attempts=1,
                **figures,
            )
            session.add(sample)
            session.flush()
            session.add(Attempt(sample_id=sample.id, number=1, run_id=run.id, state="done", **figures))
            samples.append(sample.id)
        for category in "ab":
            session.add(
                RunCategory(
                    run_id=run.id, category=category, done=sum(1 for n in range(count) if "ab"[n % 2] == category)
                )
            )
        seeded = Seeded(run.id, prompts.id, samples)
    ids = AttemptIds(np.array([1, 2, 3], dtype=np.uint32), np.array([200012, 5, 6], dtype=np.uint32))
    ctx.ids.put(seeded.run_id, [((sample_id, 1), ids) for sample_id in seeded.sample_ids])
    return seeded
