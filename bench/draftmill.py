"""Draftmill's whole path, as it runs: a real worker process, a database and an id store on disk, checks inline.

Plan, render, send, decode, verify, segment, check ids, commit durably. The app process is not in the way and not counted.
What the worker does once in its life (start, load the server's tokenizer, probe the server) is measured apart.
"""

import asyncio
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
import psutil

from bench.measure import ROOT, Peak, Row, cpu_of
from db.engine import Database
from db.migrate import upgrade
from db.stores import open_id_store
from db.tables import User
from inference.backends.service import NewBackend, create_backend, get_backend, request_action
from inference.context import Context
from inference.prompts.service import create_prompt_set
from inference.runs.launch import create_run
from inference.runs.service import run_view
from inference.runs.settings import NewRun
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.support.tiny_tokenizers import make_tokenizer

VOCAB = 151_936
LIMIT_S = 600


def whole_path(url: str, samples: int, in_flight: int) -> tuple[Row, float, float]:
    """One run of `samples` against the engine at `url`: the row, bytes on disk per output id, CPU seconds of start-up."""
    with tempfile.TemporaryDirectory(prefix="draftmill-bench-") as folder:
        root = Path(folder)
        model = make_tokenizer(root / "models" / "null", config={"vocab_size": VOCAB})
        settings = Settings(_env_file=None, data_dir=root / "data", model_roots=[model.parent])
        database = Database(settings.resolved_database_url)
        upgrade(database)
        ctx = Context(
            settings=settings,
            db=database,
            ids=open_id_store(database, settings.data_dir),
            tokenizers=TokenizerCache(settings.model_roots, settings.allow_remote_code),
        )
        try:
            row, before, run_id = _measure(ctx, url, model, samples, in_flight)
            return (
                row,
                _bytes_per_id(ctx, run_id),
                before,
            )  # the worker has ended: what its log still held is in the file
        finally:
            ctx.ids.close()
            database.dispose()


def _measure(ctx: Context, url: str, model: Path, samples: int, in_flight: int) -> tuple[Row, float, int]:
    worker = subprocess.Popen(
        [sys.executable, "-m", "inference.worker"],
        cwd=ROOT,
        env=os.environ | {"DRAFTMILL_DATA_DIR": str(ctx.settings.data_dir), "DRAFTMILL_MODEL_ROOTS": str(model.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process = psutil.Process(worker.pid)
        backend_id, prompt_set_id = _prepare(ctx, url, samples)
        _wait(lambda: _is_probed(ctx, backend_id), "the backend to be ready and probed")
        new = NewRun(
            name="bench",
            prompt_set_id=prompt_set_id,
            backend_ids=[backend_id],
            tokenizer=str(model),
            token_format="qwen3",  # noqa: S106  (a format, no password)
            sampling={"max_new_tokens": 4096},
            concurrency=in_flight,
            guard=None,
        )
        with Peak(process) as peak:
            before, started = cpu_of(process), time.perf_counter()
            with ctx.db.write() as session:
                run_id = create_run(session, ctx, new, None).id
            assert run_id is not None
            _wait(lambda: _done(ctx, run_id) >= samples, "the run to end")
            wall, cpu = time.perf_counter() - started, cpu_of(process) - before
        row = Row("Draftmill, whole path", in_flight, samples, wall, cpu, peak.mb)
        return row, before, run_id
    finally:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait(60)


def _prepare(ctx: Context, url: str, samples: int) -> tuple[int, int]:
    with ctx.db.write() as session:
        session.add(User(name="bench", role="admin"))
        backend = create_backend(session, ctx.settings, NewBackend(name="null", kind="attached", url=url), None)
        session.flush()
        backend_id = backend.id
        assert backend_id is not None
        if get_backend(session, backend_id).desired_state != "running":
            request_action(session, backend_id, "start")
    rows = b"".join(
        orjson.dumps({"prompt": f"Question {i}: what is {i} plus {i % 7}?", "category": f"c{i % 5}"}) + b"\n"
        for i in range(samples)
    )
    made = asyncio.run(create_prompt_set(ctx, name="bench", stream=io.BytesIO(rows), file_name="bench.jsonl"))
    assert made.accepted == samples
    return backend_id, made.id


def _is_probed(ctx: Context, backend_id: int) -> bool:
    with ctx.db.read() as session:
        backend = get_backend(session, backend_id)
        return backend.observed_state == "ready" and bool(backend.probe)


def _done(ctx: Context, run_id: int) -> int:
    with ctx.db.read() as session:
        view = run_view(session, run_id)
    if view.state in {"failed", "paused", "completed_with_failures"} or view.counts.failed:
        raise RuntimeError(f"the run is {view.state}: {view.reason} ({view.counts})")
    return view.counts.done


def _bytes_per_id(ctx: Context, run_id: int) -> float:
    with ctx.db.read() as session:
        ids = run_view(session, run_id).completion_tokens
    size = sum(file.stat().st_size for file in (ctx.settings.data_dir / "ids").rglob(f"*{run_id}*") if file.is_file())
    return size / ids


def _wait(condition, what: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {LIMIT_S} s for {what}")
        time.sleep(0.1)
