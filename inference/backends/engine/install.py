"""Install SGLang into an environment of its own, in the user's cache folder, with progress a person can follow.

    python -m inference.backends.engine.install [--dir DIR] [--cpu]

Where an NVIDIA GPU is found the CUDA build of SGLang is installed; else the unmodified wheel with CPU parts, pinned by hash.
Standard library only: it runs before anything else is installed. A run that was cut short starts again, from pip's cache.
"""

import argparse
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SGLANG = "sglang==0.5.23"
TORCH = "torch==2.13.0"
CPU_LOCKS = ("torch.lock", "cpu.lock", "nodeps.lock")
CUDA_TORCH_LOCK = "torch-cuda.lock"
MARKER = ".draftmill-engine"
CPU_DISK_MB = 2_600
CUDA_DISK_MB = 15_000
PROGRESS_EVERY_S = 10.0

PROBE = (
    "import importlib.metadata as m; "
    "print('cuda' if any(r.startswith(('nvidia-', 'cuda-')) for r in m.requires('torch') or []) else 'cpu')"
)
"""Run in the new environment: which build of torch arrived."""


class InstallError(Exception):
    """What went wrong and what to do, in a sentence."""


def default_dir() -> Path:
    """`draftmill/engine` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftmill" / "engine"


def has_nvidia_gpu() -> bool:
    """Whether the NVIDIA driver lists a GPU (the driver's own folder, so that no tool need be installed)."""
    folder = Path("/proc/driver/nvidia/gpus")
    return folder.is_dir() and any(folder.iterdir())


def installed(target: Path) -> str | None:
    """What the environment in `target` is (`cpu` or `cuda`), or None where it is absent, stale or incomplete."""
    marker = target / MARKER
    if not (target / "bin" / "python").exists() or not marker.exists():
        return None
    kind, _, locks = marker.read_text().strip().partition(" ")
    return kind if locks == _locks_digest() else None


def install(target: Path, *, cpu_only: bool = False) -> str:
    """Bring the environment in `target` up to date; returns `cpu` or `cuda`.

    Raises:
        InstallError: with the step that failed, the last lines of its output, and the cure.
    """
    if (kind := installed(target)) is not None:
        return kind
    target.mkdir(parents=True, exist_ok=True)
    with lock(target):
        if (kind := installed(target)) is not None:  # another process did it while we waited
            return kind
        (target / MARKER).unlink(missing_ok=True)
        cuda = has_nvidia_gpu() and not cpu_only
        _check_disk(target, CUDA_DISK_MB if cuda else CPU_DISK_MB)
        python = _make_venv(target)
        if cuda:
            _say(
                "an NVIDIA GPU is here: installing the CUDA build of SGLang (several GB; this path is unproven so far)"
            )
            _pip(python, [SGLANG], "SGLang with CUDA")
        else:
            _say("no NVIDIA GPU: installing SGLang for the CPU (about 360 MB to download, 1.8 GB on disk)")
            _install_torch(python)
            if _torch_build(python) == "cuda":
                _say("this package index has only the CUDA build of torch: about 3 GB more; it still runs on the CPU")
                _check_disk(target, CUDA_DISK_MB)
                _pip(python, ["--no-deps", "--require-hashes", "-r", str(HERE / CUDA_TORCH_LOCK)], "torch's CUDA parts")
            for name, what in (("cpu.lock", "what SGLang needs"), ("nodeps.lock", "SGLang")):
                _pip(python, ["--no-deps", "--require-hashes", "-r", str(HERE / name)], what)
        kind = "cuda" if cuda else "cpu"
        (target / MARKER).write_text(f"{kind} {_locks_digest()}\n")
        return kind


def _locks_digest() -> str:
    names = (*CPU_LOCKS, CUDA_TORCH_LOCK)
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name in names)).hexdigest()[:16]


class lock:  # noqa: N801  (a context manager, used like a function)
    """Two installs into one folder wait for each other; the kernel frees the lock of one that dies."""

    def __init__(self, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        self._path = target.parent / f".{target.name}.lock"

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another install is under way; waiting for it")
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _check_disk(target: Path, need_mb: int) -> None:
    free_mb = shutil.disk_usage(target).free // 1_000_000
    if free_mb < need_mb:
        raise InstallError(
            f"{target} has {free_mb:,} MB free and this needs {need_mb:,} MB. Free some space, or set XDG_CACHE_HOME to a larger disk."
        )


def _make_venv(target: Path) -> Path:
    """Always from nothing: half a package left by an install that was killed is worse than none, and pip caches downloads."""
    if importlib.util.find_spec("ensurepip") is None:
        raise InstallError(
            "this Python cannot make virtual environments: install python3-venv (Debian, Ubuntu), then try again."
        )
    shutil.rmtree(target, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(target)], "making the environment")
    return target / "bin" / "python"


def _install_torch(python: Path) -> None:
    """The torch that this index prefers, checked against the known builds.

    Not `pip install --require-hashes`: of two allowed files pip then prefers one whose hash the index tells in advance, and
    takes the CUDA build (gigabytes) although the CPU build lies in a folder beside it.
    """
    known = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", (HERE / "torch.lock").read_text()))
    with tempfile.TemporaryDirectory(prefix="draftmill-torch-") as folder:
        pip = [
            str(python),
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--progress-bar",
            "off",
            "--disable-pip-version-check",
        ]
        _run([*pip, "-d", folder, TORCH], "downloading torch")
        (wheel,) = Path(folder).glob("torch-*.whl")
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest not in known:
            raise InstallError(
                f"{wheel.name} (sha256 {digest}) is not a build of torch that {HERE / 'torch.lock'} knows. "
                "If you trust the index it came from, add its hash to that file and run this again."
            )
        _pip(python, ["--no-deps", str(wheel)], "torch")


def _torch_build(python: Path) -> str:
    return subprocess.run([str(python), "-c", PROBE], check=True, capture_output=True, text=True).stdout.strip()


def _pip(python: Path, arguments: list[str], what: str) -> None:
    # pip compiles what it installs: under PYTHONDONTWRITEBYTECODE a server would else compile torch anew at each start
    pip = [str(python), "-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check"]
    _run([*pip, *arguments], f"installing {what}")


def _run(command: list[str], what: str) -> None:
    """Run a step; say now and then how far it is; on failure show the end of what it printed."""
    started = time.monotonic()
    _say(f"{what} …")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    lines: list[str] = []
    done = threading.Event()
    ticker = threading.Thread(target=_tick, args=(what, started, lines, done), daemon=True)
    ticker.start()
    assert process.stdout is not None  # noqa: S101  (asked for above)
    lines.extend(line.rstrip() for line in process.stdout)  # the ticker reads the list while it grows
    code = process.wait()
    done.set()
    ticker.join()
    if code:
        tail = "\n    ".join([line for line in lines if line][-12:])
        raise InstallError(
            f"{what} failed (exit {code}):\n    {tail}\nCheck the network and the disk, then run it again."
        )
    _say(f"{what}: done in {time.monotonic() - started:.0f} s")


def _tick(what: str, started: float, lines: list[str], done: threading.Event) -> None:
    while not done.wait(PROGRESS_EVERY_S):
        collected = sum(1 for line in list(lines) if line.startswith("Collecting "))
        size = sum(_megabytes(list(lines)))
        installing = any(line.startswith("Installing collected packages") for line in list(lines))
        stage = "unpacking" if installing else f"{collected} packages, {size:.0f} MB so far"
        _say(f"{what}: {stage}, {time.monotonic() - started:.0f} s")


def _megabytes(lines: list[str]) -> Iterator[float]:
    """Sizes that pip names in its `Downloading x.whl (12.3 MB)` lines."""
    for line in lines:
        words = line.strip().rstrip(")").split()
        if line.strip().startswith("Downloading") and len(words) > 2 and words[-1] in {"MB", "kB"}:  # noqa: PLR2004
            number = words[-2].lstrip("(")
            try:
                yield float(number) / (1 if words[-1] == "MB" else 1000)
            except ValueError:
                continue


def _say(text: str) -> None:
    print(f"[engine] {text}", flush=True)  # noqa: T201  (its output is for a terminal)


def main() -> int:
    """The command line; 0 where the engine is ready."""
    parser = argparse.ArgumentParser(prog="python -m inference.backends.engine.install", description=__doc__)
    parser.add_argument("--dir", type=Path, default=default_dir(), help="where to install (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="install the CPU engine even where a GPU is found")
    options = parser.parse_args()
    try:
        kind = install(options.dir, cpu_only=options.cpu)
    except InstallError as error:
        _say(f"failed: {error}")
        return 1
    _say(f"ready: SGLang ({kind}) in {options.dir}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
