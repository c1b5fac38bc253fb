"""Files of an export while they are written: hashed as they grow, durable when closed, in place only when all are."""

import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.disk import sync_folder

DATA = "data"
"""Data files lie in a folder of their own: some trainers read every JSON file below the folder they are given."""


@dataclass(frozen=True, slots=True)
class Written:
    """A finished file: its path below the export's folder, bytes, SHA-256 (hex), and rows (None: not a data file)."""

    path: str
    bytes: int
    sha256: str
    rows: int | None

    @property
    def name(self) -> str:
        """The name it is asked for by."""
        return Path(self.path).name


class HashedFile(io.RawIOBase):
    """A file that knows its size and hash; closing makes it durable."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=1 << 20)
        self._hash = hashlib.sha256()
        self._size = 0

    def writable(self) -> bool:
        """It is for writing alone."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes."""
        size = memoryview(data).nbytes
        self._file.write(data)
        self._hash.update(data)
        self._size += size
        return size

    def tell(self) -> int:
        """Bytes so far."""
        return self._size

    def close(self) -> None:
        """Flush to the disk."""
        if not self.closed:
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
            finally:
                self._file.close()
                super().close()

    def abandon(self) -> None:
        """Close without making anything durable: the file is about to be removed."""
        if not self.closed:
            with suppress(OSError):  # closing flushes, which fails again on a full disk
                self._file.close()
            super().close()

    def written(self, path: str, rows: int | None) -> Written:
        """What the manifest says about it, once closed."""
        return Written(path, self._size, self._hash.hexdigest(), rows)


def export_dir(data_dir: Path, export_id: int) -> Path:
    """Where a finished export lies."""
    return data_dir / "exports" / str(export_id)


@contextmanager
def all_or_nothing(folder: Path) -> Iterator[Path]:
    """A folder to write into that becomes `folder` when the block ends well, and is removed when it does not.

    What a crash left of an earlier try is removed first.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for inner in (partial / DATA, partial):
            if inner.exists():
                sync_folder(inner)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_file(folder: Path, path: str, data: bytes) -> Written:
    """One small file, whole."""
    with HashedFile(folder / path) as file:
        file.write(data)
    return file.written(path, None)
