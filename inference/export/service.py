"""Exports as pages and REST see them: what there is to choose, ordering one, looking at it, fetching its files."""

import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from db.errors import Conflict, NotFound
from db.filters import parse_body
from db.queries.pages import LARGEST_PAGE, page_by_id
from db.tables import Export, Run, Sample
from inference.context import Context
from inference.export.files import DATA, export_dir
from inference.export.options import describe_options, read_options
from inference.export.stream import survey
from inference.export.targets import TARGETS, get_target
from inference.export.views import ExportFileView, ExportFormatView, ExportView
from inference.export.wording import empty_export
from inference.export.writer import write_export
from inference.model import Page
from inference.runs.behind.rederivations import ACTIVE, last_rederivations

__all__ = [
    "create_export",
    "export_file",
    "export_formats",
    "export_view",
    "forget_orphans",
    "list_exports",
    "page_exports",
    "write_export",
]


def export_formats() -> list[ExportFormatView]:
    """The targets, each with all options and their defaults."""
    options = describe_options()
    return [
        ExportFormatView(name=each.name, description=each.description, options=options) for each in TARGETS.values()
    ]


def create_export(
    s: Session,
    ctx: Context,
    run_id: int,
    format: str,  # noqa: A002  (the name in the contract of the REST call)
    filter_json: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    user_id: int | None = None,
) -> Export:
    """Order an export; the worker writes it. A run that still goes on may be exported: what is not done is left out.

    Raises:
        NotFound: no such run.
        Conflict: `rederive_running`: until it is done, segments and flags are partly old and partly new.
        Invalid: an unknown format, option or filter field; `export_empty` where nothing would be exported, with the counts of
            what was left out and why.
    """
    if s.get(Run, run_id) is None:
        raise NotFound("run", run_id)
    job = last_rederivations(s, [run_id]).get(run_id)
    if job is not None and job.state in ACTIVE:
        raise Conflict(
            "rederive_running",
            f"Segments and flags are being made again ({job.done:,} of {job.total:,}): order the export when that is done.",
        )
    target = get_target(format)
    chosen = read_options(options or {})
    flt = parse_body(filter_json or {})
    ids, left_out, anything = survey(ctx, run_id, flt, chosen)
    if not anything:
        total = s.exec(select(func.count()).select_from(Sample).where(col(Sample.run_id) == run_id)).one()
        raise empty_export({"outside_filter": total - len(ids), **left_out})
    row = Export(
        run_id=run_id,
        format=target.name,
        filter=flt.to_json(),
        options=chosen.model_dump(mode="json"),
        counts={"exported": 0, "left_out": {}},
        created_by=user_id,
    )
    s.add(row)
    s.flush()
    return row


def export_view(s: Session, export_id: int) -> ExportView:
    """One export.

    Raises:
        NotFound: no such export.
    """
    return _view(_get(s, export_id))


def list_exports(s: Session, run_id: int | None = None) -> list[ExportView]:
    """The newest exports (500 at most), newest first; of one run, where one is given.

    Raises:
        NotFound: no such run.
    """
    return page_exports(s, run_id, limit=LARGEST_PAGE).items


def page_exports(s: Session, run_id: int | None = None, after: str | None = None, limit: int = 50) -> Page[ExportView]:
    """Exports, newest first, by pages; of one run, where one is given.

    Raises:
        NotFound: no such run.
    """
    query = select(Export)
    if run_id is not None:
        if s.get(Run, run_id) is None:
            raise NotFound("run", run_id)
        query = query.where(col(Export.run_id) == run_id)
    rows, following = page_by_id(s, query, col(Export.id), after, limit, descending=True)
    return Page(items=[_view(row) for row in rows], next=following)


def export_file(ctx: Context, s: Session, export_id: int, name: str) -> Path:
    """Where one file of a finished export lies; `name` as in its `files`, or with `data/` before it.

    Only names that the export lists are looked up, so no name leads anywhere else.

    Raises:
        NotFound: no such export or file.
        Conflict: it is not finished.
    """
    row = _get(s, export_id)
    if row.state != "done":
        raise Conflict("export_not_done", f"Export {export_id} is {row.state}; its files are there once it is done.")
    for file in row.files:
        path = file["name"] if file["rows"] is None else f"{DATA}/{file['name']}"
        if name in {file["name"], path}:
            found = export_dir(ctx.settings.data_dir, export_id) / path
            if found.is_file():
                return found
    raise NotFound(f"file of export {export_id} called", name)


def forget_orphans(ctx: Context) -> int:
    """Remove folders of exports that are no longer in the database (their run was deleted), and what crashes left half-written.

    Not while an export is being written. Returns how many folders were removed.
    """
    root = ctx.settings.data_dir / "exports"
    if not root.is_dir():
        return 0
    with ctx.db.read() as s:
        known = {str(number) for number in s.exec(select(col(Export.id)))}
    doomed = [path for path in root.iterdir() if path.is_dir() and path.name not in known]
    for path in doomed:
        shutil.rmtree(path, ignore_errors=True)
    return len(doomed)


def _get(s: Session, export_id: int) -> Export:
    row = s.get(Export, export_id)
    if row is None:
        raise NotFound("export", export_id)
    return row


def _view(row: Export) -> ExportView:
    return ExportView(
        files=[ExportFileView(**file) for file in row.files], **row.model_dump(exclude={"files", "created_by"})
    )
