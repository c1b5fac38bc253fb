"""A workshop for tests of runs: a context, a prompt set, a ready backend on a fake SGLang, and a runner that works it off."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, select

from db.engine import Database
from db.idstore import IdStore
from db.queries.counters import COUNTED, counters, recount
from db.tables import (
    Attempt,
    Backend,
    BackendStart,
    Prompt,
    PromptBody,
    PromptSet,
    Run,
    RunEvent,
    Sample,
    SampleFlag,
    User,
)
from inference.context import Context
from inference.runs.behind.step import Behind
from inference.runs.launch import create_run
from inference.runs.pool import ClientPool
from inference.runs.runner import Runner
from inference.runs.service import run_view
from inference.runs.settings import NewRun
from inference.runs.views import RunView
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.support.fake_sglang import FakeSglang
from tests.support.tiny_tokenizers import make_tokenizer

MODEL = "tiny"


def make_context(settings: Settings, database: Database, ids: IdStore) -> Context:
    """A context whose first model root holds the tokenizer `tiny`, Qwen3's ids and template."""
    make_tokenizer(settings.model_roots[0] / MODEL)
    return Context(settings, database, ids, TokenizerCache(settings.model_roots, settings.allow_remote_code))


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that another thread or process brings about; a TimeoutError where it does not."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (rows and other threads set no event here)
            await asyncio.sleep(0.01)


@dataclass
class Workshop:
    """One context and what tests do with it."""

    ctx: Context

    def prompts(self, count: int = 6, categories: Sequence[str] = ("a", "b"), **body: Any) -> int:
        """A ready prompt set; prompt number n asks `n` and its category goes round."""
        with self.ctx.db.write() as s:
            names = [categories[number % len(categories)] for number in range(count)]
            new = PromptSet(name="p", state="ready", accepted=count, categories={c: names.count(c) for c in set(names)})
            s.add(new)
            s.flush()
            for number, name in enumerate(names):
                prompt = Prompt(
                    prompt_set_id=new.id,
                    line=number + 1,
                    source_id=f"q{number}",
                    category=name,
                    preview=f"question {number}",
                )
                s.add(prompt)
                s.flush()
                messages = body.get("messages") or [{"role": "user", "content": f"question {number}"}]
                tools = json.dumps(body["tools"]) if "tools" in body else None
                s.add(PromptBody(prompt_id=prompt.id, messages=json.dumps(messages), tools=tools))
            return new.id

    def backend(self, fake: FakeSglang, name: str = "fake", **changes: Any) -> int:
        """A ready, probed backend at a fake server."""
        with self.ctx.db.write() as s:
            backend = Backend(
                name=name,
                kind="attached",
                url=fake.url,
                desired_state="running",
                observed_state="ready",
                model=MODEL,
                server_info={
                    "model_path": MODEL,
                    "tokenizer_path": MODEL,
                    "version": "0.5.23",
                    "context_length": fake.facts.context_length,
                    "max_req_input_len": fake.facts.max_req_input_len,
                    "weight_version": fake.facts.weight_version,
                },
                probe={"ok": True, "refusals": [], "notes": [], "checks": []},
            )
            for key, value in changes.items():
                setattr(backend, key, value)
            s.add(backend)
            s.flush()
            start = BackendStart(backend_id=backend.id, number=1, weight_version=fake.facts.weight_version)
            s.add(start)
            s.flush()
            backend.start_id = start.id
            s.add(backend)
            return backend.id

    def set_backend(self, backend_id: int, **changes: Any) -> None:
        with self.ctx.db.write() as s:
            backend = s.get(Backend, backend_id)
            for key, value in changes.items():
                setattr(backend, key, value)
            s.add(backend)

    def user(self, name: str = "ada") -> int:
        with self.ctx.db.write() as s:
            user = User(name=name, role="operator")
            s.add(user)
            s.flush()
            return user.id

    def launch(self, prompt_set_id: int, *backend_ids: int, **settings: Any) -> int:
        """A queued run."""
        new = NewRun(name="r", prompt_set_id=prompt_set_id, backend_ids=list(backend_ids), **settings)
        with self.ctx.db.write() as s:
            return create_run(s, self.ctx, new, None).id

    def work(self, run_id: int, **arguments: Any) -> Runner:
        """Let a runner work until the run needs it no more."""
        return asyncio.run(self.worked(run_id, **arguments))

    async def worked(self, run_id: int, *, stop: asyncio.Event | None = None, seconds: float = 60.0) -> Runner:
        with ThreadPoolExecutor(4) as executor:
            pool = ClientPool()
            runner = Runner(self.ctx, run_id, pool, executor)
            try:
                async with asyncio.timeout(seconds):
                    await runner.run(stop or asyncio.Event())
            finally:
                await pool.aclose()
            return runner

    def catch_up(self) -> int:
        """Let all be done that is done behind the runs; returns how many pieces it took."""
        behind, halt, pieces = Behind(self.ctx), threading.Event(), 0
        while behind.step(halt):
            pieces += 1
            assert pieces < 1000
        return pieces

    def view(self, run_id: int) -> RunView:
        with self.ctx.db.read() as s:
            return run_view(s, run_id)

    def run(self, run_id: int) -> Run:
        with self.ctx.db.read() as s:
            run = s.get(Run, run_id)
            s.expunge_all()
            return run

    def samples(self, run_id: int) -> list[Sample]:
        with self.ctx.db.read() as s:
            found = list(s.exec(select(Sample).where(col(Sample.run_id) == run_id).order_by(col(Sample.id))))
            s.expunge_all()
            return found

    def attempts(self, run_id: int) -> list[Attempt]:
        with self.ctx.db.read() as s:
            query = select(Attempt).where(col(Attempt.run_id) == run_id)
            found = list(s.exec(query.order_by(col(Attempt.sample_id), col(Attempt.number))))
            s.expunge_all()
            return found

    def flags(self, run_id: int) -> list[SampleFlag]:
        with self.ctx.db.read() as s:
            found = list(
                s.exec(select(SampleFlag).where(col(SampleFlag.run_id) == run_id).order_by(col(SampleFlag.id)))
            )
            s.expunge_all()
            return found

    def events(self, run_id: int) -> list[RunEvent]:
        with self.ctx.db.read() as s:
            found = list(s.exec(select(RunEvent).where(col(RunEvent.run_id) == run_id).order_by(col(RunEvent.id))))
            s.expunge_all()
            return found

    def counts(self, run_id: int) -> dict[str, dict[str, int]]:
        """The counters as kept, after checking that a recount gives the same."""
        with self.ctx.db.write() as s:
            kept = counters(s, run_id)
            recount(s, run_id)
            again = counters(s, run_id)
        empty = dict.fromkeys(COUNTED, 0)
        assert {name: row for name, row in kept.items() if row != empty} == {
            name: row for name, row in again.items() if row != empty
        }
        return kept
