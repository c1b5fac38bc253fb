"""A file being received: multipart or raw, handed on as it arrives.

Nothing is spooled and no part is held in memory, so neither Starlette's limit on form parts nor the machine's memory bounds an
upload; the settings do. In a multipart form the data is the part `file`, or the non-empty part `text` (something pasted).
Fields before it are known at once (`csrf` and `name` must be there); fields after it once the stream has ended.
"""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from fastapi import HTTPException, Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.auth import csrf
from api.auth.gate import CSRF
from api.auth.identity import Identity
from db.errors import Forbidden, Invalid

MAX_FIELD_BYTES = 65_536
MAX_PARTS = 100
"""Empty ones count too: the form itself is bounded by the size of an upload alone."""
RAW_HINT = (
    "Send the file as the multipart field `file` (curl -F file=@prompts.jsonl), or as the raw body with Content-Type "
    "application/x-ndjson, application/json, text/csv or application/vnd.apache.parquet."
)


@dataclass(slots=True)
class IncomingFile:
    """What is known of the file, and its bytes as they come."""

    stream: AsyncIterator[bytes]
    file_name: str = ""
    content_type: str = ""
    content_encoding: str = ""
    fields: dict[str, str] = field(default_factory=dict)


class _Form:
    """A multipart body, read up to its data and then through it."""

    def __init__(self, request: Request, boundary: bytes) -> None:
        self._source = request.stream()
        self._chunks: deque[bytes] = deque()
        self._headers: dict[bytes, bytes] = {}
        self._header_name = self._header_value = b""
        self._part = ""
        self._value = bytearray()
        self.found = IncomingFile(self._data())
        self._started = self._complete = False
        self._parts = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_text,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_end": self._end,
            },
        )

    async def open(self) -> IncomingFile:
        """Read until the data begins."""
        while not self._started and await self._pump():
            pass
        if not self._started:
            raise Invalid("file_missing", f"The form has no file in it. {RAW_HINT}", field="file")
        return self.found

    async def _data(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            while self._chunks:
                yield self._chunks.popleft()
            more = await self._pump()
        while self._chunks:
            yield self._chunks.popleft()

    async def _pump(self) -> bool:
        chunk = await anext(self._source, b"")
        if not chunk:
            if not self._complete:
                raise Invalid(
                    "upload_incomplete", "The upload ended before its last boundary; send it again.", field="file"
                )
            return False
        try:
            self._parser.write(chunk)
        except MultipartParseError as error:
            raise Invalid(
                "multipart_malformed", f"The multipart body cannot be read: {error}.", field="file"
            ) from error
        return True

    def _part_begin(self) -> None:
        self._headers, self._value, self._part = {}, bytearray(), ""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Invalid("form_too_large", f"The form has more than {MAX_PARTS} parts; an upload is one of them.")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _header_text(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        file_name = options.get(b"filename")
        if self._part == "file" and file_name and not self._started:
            self._start(file_name)

    def _start(self, file_name: bytes) -> None:
        self._started = True
        self._part = "\0data"
        self.found.file_name = file_name.decode("utf-8", "replace")
        self.found.content_type = self._headers.get(b"content-type", b"").decode("latin-1")
        self.found.content_encoding = self._headers.get(b"content-encoding", b"").decode("latin-1")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._part in {"file", "text"} and end > start and not self._started:
            self._start(b"")
        if self._part == "\0data":
            self._chunks.append(data[start:end])
        elif b"filename" not in self._headers.get(b"content-disposition", b""):
            self._value += data[start:end]
            if len(self._value) > MAX_FIELD_BYTES:
                raise Invalid(
                    "form_too_large", f"The form field {self._part!r} is too long; only `file` and `text` may be."
                )

    def _part_end(self) -> None:
        if self._part not in {"\0data", "file", "text"}:
            self.found.fields[self._part] = self._value.decode("utf-8", "replace")

    def _end(self) -> None:
        self._complete = True


async def open_upload(request: Request) -> IncomingFile:
    """Begin to receive, once a request: FastAPI dependency, see `api.deps.Upload`.

    Raises:
        Invalid: a form without a file, or one that cannot be read.
        Forbidden: a browser's form without the session's CSRF token before its file.
        HTTPException: 415, a raw body of a type that is no file's.
    """
    begun: IncomingFile | None = getattr(request.state, "incoming", None)
    if begun is None:
        begun = request.state.incoming = await _open(request)
    return begun


async def _open(request: Request) -> IncomingFile:
    kind = csrf.media_type(request)
    if kind == csrf.MULTIPART:
        _, options = parse_options_header(request.headers.get("content-type", ""))
        boundary = options.get(b"boundary")
        if not boundary:
            raise Invalid("multipart_malformed", "The multipart Content-Type names no boundary.", field="Content-Type")
        found = await _Form(request, boundary).open()
        if request.state.csrf_pending:
            identity: Identity = request.state.identity
            if not csrf.carries_token(identity, found.fields.get(csrf.FIELD)):
                raise Forbidden(CSRF.code, CSRF.detail, field=csrf.FIELD)
            request.state.csrf_pending = False
        return found
    if kind in {"", csrf.FORM}:
        raise HTTPException(415, f"Content-Type {kind or '(none)'} is no file's. {RAW_HINT}")
    return IncomingFile(
        request.stream(),
        file_name="",
        content_type=request.headers.get("content-type", ""),
        content_encoding=request.headers.get("content-encoding", ""),
    )
