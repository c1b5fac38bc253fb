"""One attempt's ids as a compact blob that knows when it was damaged.

Layout, little-endian: `b"DI"`, version u8, prompt length u32, output length u32, CRC-32 u32, then a zstd frame of the four
byte planes of all ids (prompt first). Natural text comes to about 2 bytes an id, where plain uint32 takes 4: the two upper
planes hardly vary and cost next to nothing once they stand together. The checksum covers the key, the lengths and the
frame, so a blob that was cut, changed or stored under another key is refused, never handed out as ids.
"""

import struct
import threading
import zlib

import numpy as np
import zstandard

from db.errors import Unavailable
from db.idstore import AttemptIds, Key

_HEADER = struct.Struct("<2sBIII")
_KEY = struct.Struct("<qqII")
_MAGIC = b"DI"
_VERSION = 1
_LEVEL = 3


class IdsCorrupted(Unavailable):
    """What lies in the id store for this attempt is not what was written."""

    def __init__(self, key: Key, reason: str) -> None:
        sample, attempt = key
        super().__init__(
            "ids_corrupted",
            f"The stored ids of sample {sample}, attempt {attempt}, are damaged ({reason}); restore them from a backup or "
            "regenerate the sample.",
        )


class _Zstd(threading.local):
    """zstd contexts are costly to make and not safe to share: one pair a thread."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False, write_content_size=True).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


def encode(key: Key, ids: AttemptIds) -> bytes:
    """The blob of one attempt, bound to its key (sample id, attempt number)."""
    prompt, output = len(ids.prompt_ids), len(ids.output_ids)
    words = np.concatenate((ids.prompt_ids, ids.output_ids)).astype("<u4", copy=False)
    planes = np.ascontiguousarray(words.view(np.uint8).reshape(-1, 4).T)
    frame = _zstd.compress(planes.tobytes())
    return _HEADER.pack(_MAGIC, _VERSION, prompt, output, _checksum(key, prompt, output, frame)) + frame


def decode(key: Key, blob: bytes) -> AttemptIds:
    """The ids of a blob that `encode` made under the same key.

    Raises:
        IdsCorrupted: the blob was cut, changed, or belongs to another key.
    """
    if len(blob) < _HEADER.size:
        raise IdsCorrupted(key, f"only {len(blob)} bytes are left")
    magic, version, prompt, output, checksum = _HEADER.unpack_from(blob)
    if magic != _MAGIC:
        raise IdsCorrupted(key, "it does not begin as ids do")
    if version != _VERSION:
        raise IdsCorrupted(key, f"format {version} is not known to this version")
    frame = blob[_HEADER.size :]
    if _checksum(key, prompt, output, frame) != checksum:
        raise IdsCorrupted(key, "the checksum does not match")
    try:
        planes = _zstd.decompress(frame)
    except zstandard.ZstdError as error:
        raise IdsCorrupted(key, f"zstd: {error}") from error
    if len(planes) != 4 * (prompt + output):
        raise IdsCorrupted(key, f"{len(planes)} bytes where {4 * (prompt + output)} were written")
    words = (
        np.frombuffer(planes, np.uint8).reshape(4, -1).T.copy().view("<u4").reshape(-1).astype(np.uint32, copy=False)
    )
    return AttemptIds(words[:prompt], words[prompt:])


def _checksum(key: Key, prompt: int, output: int, frame: bytes) -> int:
    return zlib.crc32(frame, zlib.crc32(_KEY.pack(*key, prompt, output)))
