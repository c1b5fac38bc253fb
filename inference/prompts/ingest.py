"""A stored upload becomes prompts in the database: read as a stream, committed a batch at a time.

Memory holds one batch, whatever the file's size. Rows are written with Core statements, bodies after their rows by the ids
that the database gave.
"""

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import insert, update
from sqlmodel import Session, col, select

from db.engine import Database
from db.tables import Prompt, PromptBody, PromptError, PromptSet
from inference.prompts import detection
from inference.prompts.formats import read_rows
from inference.prompts.jsontext import JsonReader
from inference.prompts.packing import open_unpacked
from inference.prompts.rows import FileBroken, PromptRow, RawRow, RefusedRow, RowRefused
from inference.prompts.shapes import read_prompt
from inference.prompts.tally import Tally

BATCH_ROWS = 1_000
BATCH_CHARS = 16 * 2**20
"""A batch ends here too, so that long conversations do not pile up."""

_HEAD_BYTES = 4096


def ingest(db: Database, prompt_set_id: int, path: Path, *, content_type: str | None, limit: int) -> Tally:
    """Read the upload of a set that is in state `reading`, and leave the set `ready`, or `failed` with the reason.

    Args:
        db: each batch is a write transaction of its own.
        prompt_set_id: the set.
        path: its stored upload.
        content_type: what the sender said.
        limit: most bytes it may unpack to.

    Raises:
        Invalid: no format that is read here.
        TooLarge: it unpacks beyond `limit`.
    """
    with db.read() as s:
        file_name = s.exec(select(col(PromptSet.file_name)).where(col(PromptSet.id) == prompt_set_id)).one()
    tally = Tally()
    writer = _Writer(db, prompt_set_id, tally)
    found, line, broken = "", 0, None
    try:
        with _plain(path, limit, content_type, file_name) as (file_format, codecs, stream):
            found = "+".join([file_format, *codecs])
            reader = JsonReader()
            for row in read_rows(file_format, stream, reader, limit):
                writer.add(_prompt(row, reader, cells_are_text=file_format in {detection.CSV, detection.TSV}))
    except FileBroken as error:
        broken = error
        line = error.line or tally.accepted + tally.rejected + 1
        tally.refuse(RefusedRow(line, "file_broken", error.message))
    writer.flush()
    sentence = tally.sentence(file_name)
    if broken and not tally.accepted:
        sentence = f"{file_name or 'The upload'} cannot be read: {broken.message}."
    elif broken:
        sentence = f"Row {line} is where the file breaks off: {broken.message}. What came before it was read. {sentence}".strip()
    with db.write() as s:
        state = "ready" if tally.accepted else "failed"
        _update(s, prompt_set_id, tally, state=state, message=sentence, file_format=found)
    return tally


def _prompt(row: RawRow | RefusedRow, reader: JsonReader, *, cells_are_text: bool) -> PromptRow | RefusedRow:
    if isinstance(row, RefusedRow):
        return row
    try:
        return read_prompt(row, reader, cells_are_text=cells_are_text)
    except RowRefused as refusal:
        return RefusedRow(row.line, refusal.code, refusal.message)
    except RecursionError:
        return RefusedRow(row.line, "nested_too_deep", "nested too deep to be read")


@contextmanager
def _plain(
    path: Path, limit: int, content_type: str | None, file_name: str
) -> Iterator[tuple[str, tuple[str, ...], io.BufferedReader]]:
    """(format, codecs, plain bytes): bytes that can seek where the format needs it."""
    stream, codecs = open_unpacked(path, limit)
    with stream:
        head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        file_format = detection.format_of(head, content_type=content_type, file_name=file_name)
        if file_format != detection.PARQUET or not codecs:
            yield file_format, codecs, stream
            return
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as unpacked:
            while piece := stream.read(1 << 20):
                unpacked.write(piece)
            unpacked.seek(0)
            yield file_format, codecs, io.BufferedReader(unpacked)


class _Writer:
    """Collects rows and commits them in batches."""

    def __init__(self, db: Database, prompt_set_id: int, tally: Tally) -> None:
        self._db = db
        self._set_id = prompt_set_id
        self._tally = tally
        self._rows: list[PromptRow] = []
        self._chars = 0

    def add(self, row: PromptRow | RefusedRow) -> None:
        if isinstance(row, RefusedRow):
            self._tally.refuse(row)
        else:
            self._tally.accept(row)
            self._rows.append(row)
            self._chars += len(row.messages) + len(row.tools or "")
        if len(self._rows) >= BATCH_ROWS or self._chars >= BATCH_CHARS or len(self._tally.pending) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Commit what was collected, and the counts so far."""
        with self._db.write() as s:
            if self._rows:
                self._insert(s)
            if self._tally.pending:
                messages = [
                    {
                        "prompt_set_id": self._set_id,
                        "line": m.line,
                        "severity": m.severity,
                        "code": m.code,
                        "message": m.message,
                    }
                    for m in self._tally.pending
                ]
                s.exec(insert(PromptError), params=messages)
            _update(s, self._set_id, self._tally)
        self._rows.clear()
        self._tally.pending.clear()
        self._chars = 0

    def _insert(self, s: Session) -> None:
        rows = [
            {
                "prompt_set_id": self._set_id,
                "line": row.line,
                "source_id": row.source_id,
                "category": row.category,
                "preview": row.preview,
            }
            for row in self._rows
        ]
        s.exec(insert(Prompt), params=rows)
        lines = (self._rows[0].line, self._rows[-1].line)
        ids = dict(
            s.exec(
                select(col(Prompt.line), col(Prompt.id)).where(
                    col(Prompt.prompt_set_id) == self._set_id, col(Prompt.line).between(*lines)
                )
            ).all()
        )
        bodies = [{"prompt_id": ids[row.line], "messages": row.messages, "tools": row.tools} for row in self._rows]
        s.exec(insert(PromptBody), params=bodies)


def _update(s: Session, prompt_set_id: int, tally: Tally, **more: str) -> None:
    values = {
        "accepted": tally.accepted,
        "rejected": tally.rejected,
        "warnings": tally.warnings,
        "categories": tally.categories,
        **more,
    }
    s.exec(update(PromptSet).where(col(PromptSet.id) == prompt_set_id).values(**values))
