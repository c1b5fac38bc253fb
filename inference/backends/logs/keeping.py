"""How many logs stay: those of a backend's last starts, and always those of starts that live."""

import contextlib
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from inference.settings import Settings

_OF_A_START = re.compile(r"start-(\d{1,18})\.(?:log|yaml)")


def log_root(settings: Settings) -> Path:
    """The folder of all server logs."""
    return (settings.data_dir / "logs").resolve()


def log_folder(settings: Settings, backend_id: int) -> Path:
    """The folder of one backend's logs."""
    return log_root(settings) / f"backend-{backend_id}"


def prune(folder: Path, keep: int, living: Collection[Path]) -> list[Path]:
    """Remove the logs (and forgotten key files) of all but the last `keep` starts; what cannot be removed stays.

    Args:
        folder: a backend's logs, `start-<number>.log`; other files in it are nobody's to remove.
        keep: starts to keep; 0 keeps none but the living. Before a start, which adds one, that is one less than shall be kept.
        living: logs of starts whose process may still run: never removed, and not counted.

    Returns:
        The logs that were removed.
    """
    spared = {path.resolve() for path in living}
    found: dict[int, list[Path]] = {}
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if (match := _OF_A_START.fullmatch(path.name)) is not None:
                found.setdefault(int(match[1]), []).append(path)
    ended = [number for number, paths in found.items() if not any(_log_of(path) in spared for path in paths)]
    removed = []
    for number in sorted(ended, reverse=True)[max(0, keep) :]:
        for path in found[number]:
            with contextlib.suppress(OSError):
                path.unlink()
                if path.suffix == ".log":
                    removed.append(path)
    return removed


def drop_folder(settings: Settings, backend_id: int) -> None:
    """Remove everything of a backend that is no more; what cannot be removed stays."""
    folder = log_folder(settings, backend_id)
    if not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


def _log_of(path: Path) -> Path:
    return path.with_suffix(".log").resolve()
