"""Writing one export, in a worker thread: rows to files, figures, manifest; then all of it in place at once.

A crash at any point leaves the export in state `writing` and no finished folder (or a finished one that the row does not name
yet): writing it again gives the same files.
"""

import shutil
import threading
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlalchemy import func, update
from sqlmodel import Session, col, select

from db.errors import DomainError
from db.filters import parse_body
from db.tables import Export, Run, Sample
from db.types import now
from inference.context import Context
from inference.disk import is_full
from inference.export.files import Written, all_or_nothing, export_dir, write_file
from inference.export.manifest import COUNTS, NAME, Job, describe_sources, manifest
from inference.export.options import read_options
from inference.export.selection import matching_ids
from inference.export.stream import Stream
from inference.export.targets import get_target
from inference.export.wording import empty_export

PROGRESS_S = 2.0
_OPEN = ("queued", "writing")


class ExportStopped(Exception):  # noqa: N818  (not an error: the process is asked to stop)
    """Writing was told to stop; the export stays `writing` and is written again by the next process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished export's row says."""

    counts: dict[str, Any]
    files: list[Written]


def write_export(ctx: Context, export_id: int, stop: threading.Event | None = None) -> None:
    """Write an export that is queued, or was being written when the process died; others are left alone.

    Ends with the export `done`, or `failed` with a sentence and no files. Blocks: minutes for a large run.

    Args:
        ctx: settings, database, id store.
        export_id: the export.
        stop: when set, writing ends at the next row and the export stays `writing`.
    """
    job = _begin(ctx, export_id)
    if job is None:
        return
    try:
        outcome = _write(ctx, job, stop or threading.Event())
    except ExportStopped:
        return
    except DomainError as error:
        _fail(ctx, export_id, error.message)
    except (OSError, pa.ArrowException) as error:
        _fail(ctx, export_id, _disk_sentence(ctx, error))
    except Exception as error:
        _fail(ctx, export_id, f"Writing failed with {type(error).__name__}: {error}. The log has the whole story.")
        raise
    else:
        _finish(ctx, export_id, outcome)


def _begin(ctx: Context, export_id: int) -> Job | None:
    with ctx.db.write() as s:
        row = s.get(Export, export_id)
        run = s.get(Run, row.run_id) if row is not None else None
        if row is None or run is None or row.state not in _OPEN:
            return None
        row.state = "writing"
        return Job(
            export_id=export_id,
            format=row.format,
            filter=dict(row.filter),
            options=dict(row.options),
            run_id=row.run_id,
            run_name=run.name,
            fingerprint=run.fingerprint,
            prompt_set_id=run.prompt_set_id,
            settings=dict(run.settings),
            token_format=run.token_format,
            created_at=row.created_at,
        )


def _write(ctx: Context, job: Job, stop: threading.Event) -> Outcome:
    options = read_options(job.options)
    with ctx.db.read() as s:
        ids = matching_ids(s, job.run_id, parse_body(job.filter))
        total = s.exec(select(func.count()).select_from(Sample).where(col(Sample.run_id) == job.run_id)).one()
    stream = Stream(ctx, job.run_id, options)
    stream.left_out.update({"outside_filter": total - len(ids)} if total > len(ids) else {})
    told = time.monotonic()
    with all_or_nothing(export_dir(ctx.settings.data_dir, job.export_id)) as folder:
        with get_target(job.format).writer(folder, options.rows_per_file) as writer:
            for row in stream.rows(ids):
                writer.write(row)
                if stop.is_set():
                    raise ExportStopped
                if time.monotonic() - told >= PROGRESS_S:
                    told = time.monotonic()
                    _tell(ctx, job.export_id, stream, len(ids))
        if not stream.figures.rows:
            raise empty_export(stream.left_out)
        files = [*writer.files, write_file(folder, COUNTS, stream.figures.token_counts())]
        left_out = dict(sorted(stream.left_out.items()))
        with ctx.db.read() as s:
            sources = describe_sources(s, stream.sources)
        text = manifest(job, stream.figures, left_out, sources, files, now())
        files.append(write_file(folder, NAME, text))
    return Outcome(_counts(stream), files)


def _counts(stream: Stream) -> dict[str, Any]:
    return {
        "exported": stream.figures.rows,
        "left_out": dict(sorted(stream.left_out.items())),
        "trained_tokens": stream.figures.trained_tokens(),
        "clipped": stream.figures.clipped,
    }


def _tell(ctx: Context, export_id: int, stream: Stream, total: int) -> None:
    message = f"{stream.looked_at:,} of {total:,} samples looked at, {stream.figures.rows:,} rows written."
    with ctx.db.write() as s:
        _set(s, export_id, message=message)


def _finish(ctx: Context, export_id: int, outcome: Outcome) -> None:
    files = [
        {"name": file.name, "bytes": file.bytes, "sha256": file.sha256, "rows": file.rows} for file in outcome.files
    ]
    with ctx.db.write() as s:
        known = _set(s, export_id, state="done", message="", counts=outcome.counts, files=files, finished_at=now())
    if not known:  # its run was deleted meanwhile
        shutil.rmtree(export_dir(ctx.settings.data_dir, export_id), ignore_errors=True)


def _fail(ctx: Context, export_id: int, message: str) -> None:
    with ctx.db.write() as s:
        _set(s, export_id, state="failed", message=message, finished_at=now())


def _set(s: Session, export_id: int, **values: Any) -> bool:
    """Whether there was such an export, being written."""
    done = s.exec(update(Export).where(col(Export.id) == export_id, col(Export.state) == "writing").values(**values))
    return bool(done.rowcount)


def _disk_sentence(ctx: Context, error: BaseException) -> str:
    folder = ctx.settings.data_dir / "exports"
    if is_full(error):
        return (
            f"The disk that holds {folder} is full: nothing of this export was kept. Free some space and export again."
        )
    return f"The export could not be written below {folder}: {error}."
