"""A run made by hand, for the tests of this room: samples with exact ids, verdicts and flags, and exports of them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from db.idstore import AttemptIds
from db.tables import Attempt, Backend, BackendStart, Prompt, PromptSet, Review, Run, Sample, SampleFlag, User
from inference.context import Context
from inference.export.service import create_export, export_file, export_view, write_export
from inference.export.views import ExportView

STOP = 163586
SETTINGS = {
    "model": "demo",
    "tokenizer": "demo",
    "tokenizer_sha256": "aa",
    "template_sha256": "bb",
    "vocab_size": 201_000,
    "stop_ids": [STOP],
    "token_format": "kimi_k2",
    "sampling": {"temperature": 0.8, "max_new_tokens": 64},
    "chat_template_kwargs": {"thinking": True},
}


@dataclass
class Shop:
    """One run, and what was said about its samples."""

    ctx: Context
    run_id: int = 0
    backend_id: int = 0
    prompt_set_id: int = 0
    users: list[int] = field(default_factory=list)
    start_id: int = 0
    _lines: int = 0

    def open(self) -> "Shop":
        with self.ctx.db.write() as s:
            prompts = PromptSet(name="p", state="ready")
            backend = Backend(name="b", kind="managed", version="0.5.23", model="demo", api_key="SECRET")
            users = [User(name=name, role="reviewer") for name in ("ann", "bob")]
            s.add_all([prompts, backend, *users])
            s.flush()
            run = Run(name="first", prompt_set_id=prompts.id, settings=SETTINGS, fingerprint="f" * 64)
            start = BackendStart(backend_id=backend.id, number=3, command=["python", "-m", "sglang.launch_server"])
            s.add_all([run, start])
            s.flush()
            self.run_id, self.backend_id, self.prompt_set_id = run.id, backend.id, prompts.id
            self.start_id = start.id
            self.users = [user.id for user in users]
        return self

    def add(
        self,
        prompt: list[int] | None = None,
        output: list[int] | None = None,
        *,
        state: str = "done",
        finish: str | None = "stop",
        category: str = "c",
        attempt: int = 1,
        store: bool = True,
        verdicts: tuple[str, ...] = (),
        flags: tuple[tuple[str, str, int | None, int | None], ...] = (),
        prompt_tokens: int | None = None,
        **more: Any,
    ) -> int:
        prompt_ids = np.array([1, 2, 3] if prompt is None else prompt, np.uint32)
        output_ids = np.array([7, 8, STOP] if output is None else output, np.uint32)
        with self.ctx.db.write() as s:
            row = Prompt(prompt_set_id=self.prompt_set_id, line=self._line(), source_id=f"src-{self._lines}")
            s.add(row)
            s.flush()
            made = Sample(
                run_id=self.run_id, prompt_id=row.id, source_id=row.source_id, category=category, state=state,
                attempt=attempt if state == "done" else 0, attempts=attempt, finish_reason=finish,
                prompt_tokens=len(prompt_ids) if prompt_tokens is None else prompt_tokens,
                completion_tokens=len(output_ids), **more,
            )  # fmt: skip
            s.add(made)
            s.flush()
            if state == "done":
                s.add(
                    Attempt(
                        sample_id=made.id, number=attempt, run_id=self.run_id, state="done", finish_reason=finish,
                        backend_id=self.backend_id, backend_start_id=self.start_id, weight_version="w1",
                    )
                )  # fmt: skip
                s.flush()
            for user, verdict in zip(self.users, verdicts, strict=False):
                s.add(Review(sample_id=made.id, attempt=attempt, user_id=user, run_id=self.run_id, verdict=verdict))
            for code, severity, start, end in flags:
                s.add(
                    SampleFlag(
                        run_id=self.run_id, sample_id=made.id, code=code, severity=severity, start=start, end=end
                    )
                )
            sample_id = made.id
        if store and state == "done":
            self.ctx.ids.put(self.run_id, [((sample_id, attempt), AttemptIds(prompt_ids, output_ids))])
        return sample_id

    def _line(self) -> int:
        self._lines += 1
        return self._lines

    def order(self, target: str = "input_ids_jsonl", flt: dict[str, Any] | None = None, **options: Any) -> int:
        with self.ctx.db.write() as s:
            return create_export(s, self.ctx, self.run_id, target, flt, options, self.users[0]).id

    def export(self, target: str = "input_ids_jsonl", flt: dict[str, Any] | None = None, **options: Any) -> ExportView:
        number = self.order(target, flt, **options)
        write_export(self.ctx, number)
        return self.view(number)

    def view(self, number: int) -> ExportView:
        with self.ctx.db.read() as s:
            return export_view(s, number)

    def path(self, view: ExportView, name: str) -> Path:
        with self.ctx.db.read() as s:
            return export_file(self.ctx, s, view.id, name)

    def rows(self, view: ExportView) -> list[dict[str, Any]]:
        """All rows, as plain Python reads them."""
        assert view.state == "done", view.message
        found: list[dict[str, Any]] = []
        for file in view.files:
            if file.rows is None:
                continue
            path = self.path(view, file.name)
            if path.suffix == ".jsonl":
                with path.open() as lines:
                    found += [json.loads(line) for line in lines]
            else:
                found += pq.read_table(path).to_pylist()
        return found

    def manifest(self, view: ExportView) -> dict[str, Any]:
        return json.loads(self.path(view, "manifest.json").read_text())
