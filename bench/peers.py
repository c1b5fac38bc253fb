"""Other tools' own scripts on the same null engine, where they can be installed from the package index.

speculators: `regenerate-responses` of its wheel, run with the engine's interpreter (it needs torch) and a folder of its own.
SpecForge: its regeneration script is in its repository alone, not in its wheel, so it cannot be run from here.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import orjson
import psutil

from bench.measure import Peak, Row, cpu_of
from bench.null_engine import VOCAB
from inference.backends.engine import SHIM_DIR
from inference.settings import cache_dir
from tests.support.tiny_tokenizers import make_tokenizer

SPECULATORS = (
    "speculators==0.9.0",
    "hs-connectors==0.9.0",
    "datasets==5.1.0",
    "pyarrow==26.0.1",
    "pandas",
    "python-dateutil",
    "six",
    "multiprocess",
    "xxhash",
    "loguru",
    "protobuf",
)
"""Without their dependencies: the engine's environment has the rest."""

RUN = (
    "import sys; from speculators.cli.regenerate_responses import regenerate_responses as f; import typer; typer.run(f)"
)
NAME = "speculators regenerate-responses (ids to JSONL; no database, no checks)"
POLL_S = 0.1


def speculators(url: str, samples: int, in_flight: int) -> Row:
    """Its script over `samples` prompts; its CPU is counted from start to end, imports taken out by a run of two samples."""
    python = cache_dir() / "engine" / "bin" / "python"
    if not python.exists():
        return Row(NAME, in_flight, note="needs the engine's environment: make engine")
    site = cache_dir() / "peers" / "speculators"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", str(site)]
    if not (site / "speculators").exists():
        made = subprocess.run([*pip, *SPECULATORS], capture_output=True, text=True, check=False)
        if made.returncode:
            return Row(NAME, in_flight, note="it cannot be installed here")
    start = _run(python, site, url, 2, in_flight)
    whole = _run(python, site, url, samples, in_flight)
    if isinstance(start, str) or isinstance(whole, str):
        return Row(NAME, in_flight, note=start if isinstance(start, str) else str(whole))
    return Row(NAME, in_flight, samples - 2, whole[0] - start[0], whole[1] - start[1], whole[2])


def specforge(in_flight: int) -> Row:
    """Said rather than left out."""
    return Row("SpecForge regenerate script", in_flight, note="its script is not on the package index")


def _run(python: Path, site: Path, url: str, samples: int, in_flight: int) -> tuple[float, float, float] | str:
    """(wall seconds, CPU seconds, peak MB) of one run, or why there is none."""
    with tempfile.TemporaryDirectory(prefix="draftmill-peer-") as folder:
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_bytes(
            b"".join(
                orjson.dumps({"id": str(i), "messages": [{"role": "user", "content": f"What is {i} plus {i % 7}?"}]})
                + b"\n"
                for i in range(samples)
            )
        )
        out = Path(folder) / "out.jsonl"
        arguments = ["--endpoint", f"{url}/v1/chat/completions", "--dataset", str(prompts), "--outfile", str(out)]
        arguments += ["--concurrency", str(in_flight), "--max-tokens", "4096"]
        # it loads a tokenizer by the model's name; the null engine does not mind what it is called
        arguments += ["--model", str(make_tokenizer(Path(folder) / "null", config={"vocab_size": VOCAB}))]
        paths = f"{site}:{SHIM_DIR}"
        with (Path(folder) / "said").open("w+") as said:
            process = psutil.Popen(
                [str(python), "-c", RUN, *arguments],
                cwd=folder,
                env=os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "HF_HOME": folder, "TQDM_DISABLE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
            cpu = 0.0
            started = process.create_time()
            with Peak(process) as peak:
                while process.poll() is None:
                    try:
                        cpu = cpu_of(process)
                        process.wait(POLL_S)
                    except (psutil.TimeoutExpired, psutil.Error):
                        continue
            ended = out.stat().st_mtime if out.exists() else started
            said.seek(0)
            lines = said.read().strip().splitlines()
        if process.returncode or not out.exists() or len(out.read_bytes().splitlines()) < samples:
            return f"it ended with {process.returncode}: {lines[-1][:120] if lines else 'no word'}"
        return ended - started, cpu, peak.mb
