"""The real engine for tests: SGLang on the CPU and the demo checkpoint, kept in the user's cache folder between runs."""

from pathlib import Path

from demo.checkpoint import is_built
from inference.backends.engine import install
from tests.support.absent import missing

MODEL = install.default_dir().parent / "models" / "demo"
MISSING = "the SGLang engine or the demo checkpoint is not here: run `make engine`"


def engine_python() -> Path:
    """The interpreter that has sglang; skips the test loudly where there is none, and fails it in CI."""
    if install.installed(install.default_dir()) is None or not is_built(MODEL):
        missing(MISSING)
    return install.default_dir() / "bin" / "python"


def demo_model() -> Path:
    """The demo checkpoint's folder; as `engine_python` where it is missing."""
    engine_python()
    return MODEL
