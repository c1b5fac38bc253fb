"""An upload as it came, on our own disk: stored whole, within a bound, before anything of it is read.

The request's stream is gone when its handler returns, so nothing reads an upload from there but this.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from db.errors import TooLarge, Unavailable
from inference.disk import is_full, sync_folder
from inference.prompts.detection import suffixes_of

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored upload: its size in bytes and SHA-256 (hex)."""

    path: Path
    size: int
    sha256: str


def upload_dir(data_dir: Path, prompt_set_id: int) -> Path:
    """Where the files of one prompt set lie."""
    return data_dir / "uploads" / str(prompt_set_id)


async def store(stream: AsyncIterator[bytes] | BinaryIO, folder: Path, file_name: str, limit: int) -> Stored:
    """Write the stream to `folder/original(.ext)` and make it durable; on any failure the folder is removed.

    Args:
        stream: the bytes as they arrive, or a file whose reading may block (it is read in a thread).
        folder: made here; no part of the uploader's name gets into a path but a known suffix.
        file_name: the uploader's name for it.
        limit: most bytes taken.

    Raises:
        TooLarge: more than `limit` bytes came.
        Unavailable: the disk is full.
    """
    path = folder / ("original" + "".join(suffix or "" for suffix in suffixes_of(file_name)))
    sink = _Sink(path, limit)
    try:
        if isinstance(stream, AsyncIterator):
            waiting: list[bytes] = []
            async for piece in stream:
                waiting.append(piece)
                if sum(map(len, waiting)) >= _CHUNK:
                    await asyncio.to_thread(sink.write, b"".join(waiting))
                    waiting.clear()
            await asyncio.to_thread(sink.write, b"".join(waiting))
        else:
            await asyncio.to_thread(sink.copy, stream)
        return await asyncio.to_thread(sink.finish)
    except BaseException as error:
        sink.abandon()
        if is_full(error):
            message = f"The disk that holds {folder.parent} is full: free some space and upload again."
            raise Unavailable("disk_full", message) from error
        raise


class _Sink:
    """A file being written, with its hash and its bound."""

    def __init__(self, path: Path, limit: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._limit = limit
        self._hash = hashlib.sha256()
        self._size = 0
        self._file = path.open("wb")

    def write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            raise TooLarge(
                "upload_too_large",
                f"The upload is larger than {self._limit / 2**20:g} MiB, the limit here: split it, compress it with gzip or zstd, "
                "or raise DRAFTMILL_MAX_UPLOAD_MB.",
                field="file",
            )
        self._hash.update(data)
        self._file.write(data)

    def copy(self, source: BinaryIO) -> None:
        while piece := source.read(_CHUNK):
            self.write(piece)

    def finish(self) -> Stored:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_folder(self._path.parent)
        sync_folder(self._path.parent.parent)
        return Stored(self._path, self._size, self._hash.hexdigest())

    def abandon(self) -> None:
        with suppress(OSError):  # closing flushes, which fails again on a full disk
            self._file.close()
        shutil.rmtree(self._path.parent, ignore_errors=True)
