"""Prompt sets as pages and REST see them: upload, look, delete; and the bodies that runs render.

Uploading owns its transactions (it outlives any one of them); everything else takes the caller's session.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO

from sqlalchemy import delete, update
from sqlmodel import Session, col, select

from db.errors import Conflict, Invalid, NotFound
from db.queries.anyof import any_of
from db.queries.conditions import is_sqlite
from db.queries.pages import page_by_id
from db.tables import Prompt, PromptBody, PromptError, PromptSet, Run
from inference.context import Context
from inference.model import Page
from inference.prompts.ingest import ingest
from inference.prompts.jsontext import loads, shown
from inference.prompts.uploads import Stored, store, upload_dir
from inference.prompts.views import PromptSetView, PromptView, RowErrorView

FIRST_ERRORS = 20
ENCODINGS = {"", "identity", "gzip", "x-gzip", "zstd"}
_DELETE_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class PromptData:
    """What rendering needs of a prompt: OpenAI-style messages (without the answer to be generated) and wrapped tools.

    Tool-call arguments are a string or a mapping, as uploaded. A number whose digits Python would not print again is a
    `SpelledFloat`, whose `str()` gives them back.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None


async def create_prompt_set(
    ctx: Context,
    *,
    name: str,
    stream: AsyncIterator[bytes] | BinaryIO,
    file_name: str = "",
    content_type: str | None = None,
    content_encoding: str | None = None,
    user_id: int | None = None,
) -> PromptSetView:
    """Store an upload verbatim, read it, and answer with the set: `ready`, or `failed` when nothing in it can be used.

    Args:
        ctx: settings (the limit, the data directory) and the database.
        name: the set's name; empty: the file's.
        stream: the bytes as sent.
        file_name: the uploader's name for the file; says the format together with `content_type`.
        content_type: as sent, or None.
        content_encoding: gzip, zstd or nothing; compression is found by its magic number wherever it is.
        user_id: whose it is.

    Raises:
        Invalid: an encoding or a format that is not read here.
        TooLarge: more than the limit, as sent or unpacked.
        Unavailable: the disk is full.
    """
    if (content_encoding or "").strip().lower() not in ENCODINGS:
        message = f"Content-Encoding {content_encoding} is not read here: send gzip, zstd, or the file as it is."
        raise Invalid("content_encoding_unknown", message, field="Content-Encoding")
    limit = ctx.settings.max_upload_mb * 2**20
    base_name = _base_name(file_name)
    with ctx.db.write() as s:
        made = PromptSet(name=(name.strip() or base_name or "prompts")[:200], file_name=base_name, created_by=user_id)
        s.add(made)
        s.flush()
        set_id = _id(made)
    try:
        stored = await store(stream, upload_dir(ctx.settings.data_dir, set_id), base_name, limit)
        await asyncio.to_thread(_read, ctx, set_id, stored, content_type, limit)
    except asyncio.CancelledError:
        if not upload_dir(ctx.settings.data_dir, set_id).exists():
            await asyncio.to_thread(_forget, ctx, set_id)
        raise  # with the upload stored, the thread reads on to the end: the set stays
    except BaseException:
        await asyncio.to_thread(_forget, ctx, set_id)
        raise
    with ctx.db.read() as s:
        return prompt_set_view(s, set_id)


def _read(ctx: Context, set_id: int, stored: Stored, content_type: str | None, limit: int) -> None:
    with ctx.db.write() as s:
        held = s.get_one(PromptSet, set_id)
        held.file_path = str(stored.path.relative_to(ctx.settings.data_dir))
        held.size_bytes, held.sha256 = stored.size, stored.sha256
    ingest(ctx.db, set_id, stored.path, content_type=content_type, limit=limit)


def _base_name(file_name: str) -> str:
    """The last part of whatever path a browser or script sent, printable, at most 255 characters."""
    last = PureWindowsPath(PurePosixPath(file_name).name).name
    return "".join(char if char.isprintable() else "_" for char in last)[-255:]


def _id(row: PromptSet) -> int:
    if row.id is None:
        raise AssertionError("a prompt set gets its id when it is flushed")
    return row.id


def fail_interrupted_uploads(s: Session) -> int:
    """Mark sets that were being read when the app stopped; call once, at start-up, before any upload. Returns how many."""
    message = "The app stopped while this upload was being read: delete it and upload the file again."
    done = s.exec(update(PromptSet).where(col(PromptSet.state) == "reading").values(state="failed", message=message))
    return int(done.rowcount)


def prompt_set_view(s: Session, prompt_set_id: int) -> PromptSetView:
    """One set with its first 20 row messages, refusals first.

    Raises:
        NotFound: no such set.
    """
    return _view(s, _get(s, prompt_set_id))


def _get(s: Session, prompt_set_id: int) -> PromptSet:
    held = s.get(PromptSet, prompt_set_id)
    if held is None:
        raise NotFound("prompt set", prompt_set_id)
    return held


def _view(s: Session, held: PromptSet) -> PromptSetView:
    first: list[PromptError] = []
    for severity in ("error", "warning"):
        query = select(PromptError).where(
            col(PromptError.prompt_set_id) == held.id, col(PromptError.severity) == severity
        )
        first += s.exec(query.order_by(col(PromptError.id)).limit(FIRST_ERRORS - len(first))).all()
    return PromptSetView(
        id=_id(held),
        errors=[_error_view(row) for row in first],
        **held.model_dump(exclude={"id", "file_path", "created_by"}),
    )


def _error_view(row: PromptError) -> RowErrorView:
    return RowErrorView(line=row.line, code=row.code, message=row.message, severity=row.severity)


def list_prompt_sets(s: Session, after: str | None = None, limit: int = 50) -> Page[PromptSetView]:
    """Sets, newest first."""
    rows, following = page_by_id(s, select(PromptSet), col(PromptSet.id), after, limit, descending=True)
    return Page(items=[_view(s, row) for row in rows], next=following)


def list_prompts(
    s: Session, prompt_set_id: int, category: str | None = None, after: str | None = None, limit: int = 50
) -> Page[PromptView]:
    """Prompts in the upload's order, whole; of one category, where one is given.

    Raises:
        NotFound: no such set.
    """
    _get(s, prompt_set_id)
    query = select(Prompt).where(col(Prompt.prompt_set_id) == prompt_set_id)
    if category is not None:
        query = query.where(col(Prompt.category) == category)
    rows, following = page_by_id(s, query, col(Prompt.id), after, limit)
    bodies = prompt_bodies(s, [row.id for row in rows if row.id is not None])
    items = [
        PromptView(messages=shown(bodies[row.id].messages), tools=shown(bodies[row.id].tools), **row.model_dump())
        for row in rows
        if row.id is not None
    ]
    return Page(items=items, next=following)


def prompt_at(s: Session, prompt_set_id: int, line: int) -> int:
    """The id of the prompt on that line of the uploaded file.

    Raises:
        NotFound: no such set.
        Invalid: `line_without_prompt`: there is none on that line, field `line`.
    """
    held = _get(s, prompt_set_id)
    query = select(Prompt.id).where(col(Prompt.prompt_set_id) == prompt_set_id, col(Prompt.line) == line)
    found = s.exec(query.limit(1)).first()
    if found is None:
        message = f"{held.name} has no prompt on line {line:,}: it may have been refused, or the file ends before."
        raise Invalid("line_without_prompt", message, field="line")
    return found


def list_errors(s: Session, prompt_set_id: int, after: str | None = None, limit: int = 50) -> Page[RowErrorView]:
    """Refusals, warnings and first notices, in the file's order.

    Raises:
        NotFound: no such set.
    """
    _get(s, prompt_set_id)
    query = select(PromptError).where(col(PromptError.prompt_set_id) == prompt_set_id)
    rows, following = page_by_id(s, query, col(PromptError.id), after, limit)
    return Page(items=[_error_view(row) for row in rows], next=following)


def prompt_bodies(s: Session, prompt_ids: Collection[int]) -> dict[int, PromptData]:
    """The bodies of these prompts, by id; one that does not exist is left out."""
    if not prompt_ids:
        return {}
    columns = select(col(PromptBody.prompt_id), col(PromptBody.messages), col(PromptBody.tools))
    rows = s.exec(columns.where(any_of(PromptBody.prompt_id, prompt_ids, sqlite=is_sqlite(s))))
    return {number: PromptData(loads(messages), loads(tools) if tools else None) for number, messages, tools in rows}


def delete_prompt_set(ctx: Context, prompt_set_id: int) -> None:
    """Forget a set, its prompts and its upload. Large ones go in steps, each a short transaction.

    Raises:
        NotFound: no such set.
        Conflict: a run uses it, or it is still being read.
    """
    with ctx.db.write() as s:
        held = _get(s, prompt_set_id)
        if held.state == "reading":
            raise Conflict("prompt_set_reading", f"Prompt set {held.name} is still being read: wait until it is ready.")
        used = s.exec(select(col(Run.id)).where(col(Run.prompt_set_id) == prompt_set_id).limit(5)).all()
        if used:
            runs = ", ".join(map(str, used))
            raise Conflict("prompt_set_in_use", f"Prompt set {held.name} is used by run {runs}: delete its runs first.")
        held.state, held.message = "failed", "This prompt set is being deleted."
    _forget(ctx, prompt_set_id)


def _forget(ctx: Context, prompt_set_id: int) -> None:
    """Remove every row and file of a set that no run can use."""
    more = True
    while more:
        with ctx.db.write() as s:
            query = select(col(Prompt.id)).where(col(Prompt.prompt_set_id) == prompt_set_id)
            last = s.exec(query.order_by(col(Prompt.id)).limit(1).offset(_DELETE_BATCH)).first()
            doomed = delete(Prompt).where(col(Prompt.prompt_set_id) == prompt_set_id)
            s.exec(doomed if last is None else doomed.where(col(Prompt.id) < last))
            more = last is not None
    with ctx.db.write() as s:
        s.exec(delete(PromptSet).where(col(PromptSet.id) == prompt_set_id))
    shutil.rmtree(upload_dir(ctx.settings.data_dir, prompt_set_id), ignore_errors=True)
