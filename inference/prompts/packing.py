"""Reading a stored upload as plain bytes: gzip and zstd layers are peeled off by their magic numbers, within a bound.

A few kilobytes can unpack to more than a disk holds, so every layer counts what it gives out and stops at the limit. Arrow's
streams are used because they say when a file ends in the middle of a frame, which the zstd library passes over in silence.
"""

import io
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from db.errors import TooLarge
from inference.prompts.rows import FileBroken

Codec = Literal["gzip", "zstd"]

MAGIC: Final[dict[bytes, Codec]] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
MAX_LAYERS: Final = 3
_BUFFER: Final = 1 << 18


class _Bounded(io.RawIOBase):
    """Passes bytes on until more than `limit` came; turns the errors of a broken stream into one kind."""

    def __init__(self, packed: io.BufferedReader, codec: Codec, limit: int) -> None:
        self._packed = packed
        self._codec = codec
        self._stream: Any = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), codec)
        self._limit = limit
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._stream.read(len(buffer))
        except OSError as error:
            raise FileBroken(0, f"the {self._codec} data is damaged or cut short ({error})") from error
        self._given += len(piece)
        if self._given > self._limit:
            raise TooLarge(
                "unpacked_too_large",
                f"Unpacked, the upload is larger than {self._limit / 2**20:g} MiB. The limit (DRAFTMILL_MAX_UPLOAD_MB) holds "
                "for what a compressed file unpacks to as well: split the file, or raise the limit.",
                field="file",
            )
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._packed.close()
        super().close()


def open_unpacked(path: Path, limit: int) -> tuple[io.BufferedReader, tuple[Codec, ...]]:
    """The upload's plain bytes, and the codecs that were around them, outermost first.

    The caller closes the stream. Reading raises `TooLarge` beyond `limit` unpacked bytes (an upload that is not compressed was
    bounded when it was stored) and `FileBroken` where compressed data ends early or does not check out.
    """
    stream: io.BufferedReader = io.BufferedReader(path.open("rb", buffering=0), _BUFFER)
    codecs: list[Codec] = []
    while len(codecs) < MAX_LAYERS and (codec := codec_of(stream)):
        codecs.append(codec)
        stream = io.BufferedReader(_Bounded(stream, codec, limit), _BUFFER)
    return stream, tuple(codecs)


def codec_of(stream: io.BufferedReader) -> Codec | None:
    """`gzip` or `zstd` by the next bytes, which stay unread."""
    head = stream.peek(4)[:4]
    return next((codec for magic, codec in MAGIC.items() if head.startswith(magic)), None)
