"""Prepare what a command needs, with progress: `bootstrap.py app|dev|engine|demo`.

app     .venv with what the app runs on
dev     .venv with the test tools as well
engine  SGLang and the demo checkpoint, in the user's cache folder
demo    app and engine, side by side

Standard library only. Safe to run again: what is there is left alone.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
MINIMUM = (3, 11)
sys.path.insert(0, str(ROOT))

from inference.backends.engine import SHIM_DIR, install  # noqa: E402  (standard library only, as this script is)

CACHE = install.default_dir().parent
MODEL = CACHE / "models" / "demo"


class SetupError(Exception):
    """What could not be prepared, and the cure."""


def prepare_app(*, dev: bool) -> None:
    """`.venv` from the lock file, unless the lock it was made from is the present one."""
    lock = ROOT / ("requirements-dev.lock" if dev else "requirements.lock")
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    ready = VENV / (".ready-dev" if dev else ".ready-run")
    if ready.exists() and ready.read_text() == digest:
        ready.touch()  # for make, which compares times
        return
    if not (VENV / "bin" / "pip").exists():
        if importlib.util.find_spec("ensurepip") is None:
            raise SetupError(
                "this Python cannot make virtual environments: install python3-venv (Debian, Ubuntu) and try again"
            )
        step("app: making .venv", [sys.executable, "-m", "venv", "--clear", str(VENV)])
    pip = [
        str(VENV / "bin" / "pip"),
        "install",
        "-q",
        "--disable-pip-version-check",
        "--require-hashes",
    ]
    step(f"app: installing {lock.name} (about {140 if dev else 90} MB to download)", [*pip, "-r", str(lock)])
    ready.write_text(digest)


def prepare_engine() -> None:
    """SGLang and the demo checkpoint."""
    try:
        install.install(install.default_dir())
    except install.InstallError as error:
        raise SetupError(f"engine: {error}") from error
    python = install.default_dir() / "bin" / "python"
    environment = os.environ | {"PYTHONPATH": str(SHIM_DIR)}
    with install.lock(MODEL):
        step(
            "model: preparing the demo checkpoint (93 MB to download)",
            [str(python), str(ROOT / "demo" / "checkpoint.py"), str(MODEL)],
            environment,
        )


def step(what: str, command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run one step; say how long it took, or show the end of what it printed."""
    started = time.monotonic()
    say(f"{what} …")
    done = threading.Event()
    threading.Thread(target=tick, args=(what.split(":", maxsplit=1)[0], started, done), daemon=True).start()
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    done.set()
    if result.returncode:
        tail = "\n    ".join((result.stdout + result.stderr).strip().splitlines()[-15:])
        raise SetupError(f"{what} failed (exit {result.returncode}):\n    {tail}")
    say(f"{what}: {time.monotonic() - started:.0f} s")


def tick(what: str, started: float, done: threading.Event) -> None:
    """A sign of life every ten seconds."""
    while not done.wait(10):
        say(f"{what}: still working, {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    """One line of progress."""
    print(f"[setup] {text}", flush=True)


def both(*jobs: object) -> None:
    """Run jobs side by side (one waits for the network while another unpacks); the first failure is raised."""
    failures: list[Exception] = []

    def guarded(job: object) -> None:
        try:
            job()  # type: ignore[operator]
        except SetupError as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def main(what: str) -> int:
    """The command line; 0 where everything is ready."""
    if sys.version_info < MINIMUM:
        say(
            f"Draftmill needs Python {MINIMUM[0]}.{MINIMUM[1]} or newer; this is {sys.version.split()[0]}. Try `make PYTHON=python3.12 …`."
        )
        return 1
    try:
        if what == "app":
            prepare_app(dev=False)
        elif what == "dev":
            prepare_app(dev=True)
        elif what == "engine":
            prepare_engine()
        elif what == "demo":
            if install.installed(install.default_dir()) is None:
                free = shutil.disk_usage(CACHE.parent if CACHE.parent.exists() else Path.home()).free // 1_000_000
                say(
                    f"first time: about 550 MB to download and 2.5 GB on disk ({free:,} MB are free); three to five minutes at 100 Mbit/s"
                )
            both(lambda: prepare_app(dev=False), prepare_engine)
        else:
            say(f"unknown step {what!r}: app, dev, engine or demo")
            return 2
    except SetupError as error:
        say(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
