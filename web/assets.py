"""Static files under `/static/<version>/…`, where the version is the hash of them all.

One version in the path (not in each name) lets ES modules import each other by plain relative names and still be cached for
a year. The files are few and small: they are read once, at import, and kept gzipped beside the plain bytes.
"""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_TEXT = frozenset(_TYPES)
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    media_type: str
    plain: bytes
    packed: bytes | None


def _read(path: Path) -> _File:
    plain = path.read_bytes()
    media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    packed = gzip.compress(plain, 9, mtime=0) if path.suffix in _TEXT else None
    return _File(f"{media_type}; charset=utf-8" if path.suffix in _TEXT else media_type, plain, packed)


_FILES = {path.relative_to(FOLDER).as_posix(): _read(path) for path in sorted(FOLDER.rglob("*")) if path.is_file()}
VERSION = hashlib.sha256(
    b"".join(name.encode() + b"\0" + hashlib.sha256(file.plain).digest() for name, file in _FILES.items())
).hexdigest()[:12]

router = APIRouter()


def asset(name: str) -> str:
    """The address of a static file, with the version in it.

    Raises:
        KeyError: no such file: a template names one that is not there.
    """
    if name not in _FILES:
        raise KeyError(name)
    return f"/static/{VERSION}/{name}"


@router.get("/static/{version}/{name:path}", include_in_schema=False)
def static_file(request: Request, version: str, name: str) -> Response:
    """A static file: kept for a year under its own version, not at all under another."""
    file = _FILES.get(name)
    if file is None:
        raise HTTPException(404, "There is no such static file.")
    headers = {
        "Cache-Control": _FOREVER if version == VERSION else "no-cache",
        "ETag": f'"{VERSION}"',
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.plain, media_type=file.media_type, headers=headers)


@router.get("/favicon.ico", include_in_schema=False)
def favicon(request: Request) -> Response:
    """The mark, for browsers that ask at the old address."""
    return static_file(request, VERSION, "mark.svg")
