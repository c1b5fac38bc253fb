"""Exports: asked for, looked at, fetched."""

from fastapi import Request, Response
from sqlmodel import Session
from starlette.responses import FileResponse

from api.deps import PAGE, After, Audit, Ctx, Id, Limit, Operator, ReadSession, Reviewer, WriteSession
from api.jsonbody import make_router
from api.schemas import NewExport
from db.queries.pages import page_of_few
from inference.export import service
from inference.export.views import ExportFormatView, ExportView
from inference.model import Page

router = make_router(tag="export")


@router.get("/export-formats")
def export_formats(_: Reviewer, limit: Limit = PAGE, after: After = None) -> Page[ExportFormatView]:
    """Every target, what it is for, and its options."""
    items, following = page_of_few(service.export_formats(), lambda target: (target.name,), after, limit)
    return Page(items=items, next=following)


@router.post("/runs/{run_id}/exports", status_code=202)
def create_export(
    user: Operator, run_id: Id, body: NewExport, ctx: Ctx, session: WriteSession, audit: Audit, response: Response
) -> ExportView:
    """Queue an export; `GET /exports/{id}` tells how far it is, and its files when it is done."""
    export = service.create_export(session, ctx, run_id, body.format, body.filter, body.options, user.id)
    assert export.id is not None  # noqa: S101  (flushed)
    audit("export.create", f"export/{export.id}", run=run_id, format=body.format, filter=body.filter)
    response.headers["Location"] = f"/api/v1/exports/{export.id}"
    return service.export_view(session, export.id)


@router.get("/runs/{run_id}/exports")
def list_run_exports(
    _: Reviewer, run_id: Id, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[ExportView]:
    """A run's, newest first."""
    return service.page_exports(session, run_id, after, limit)


@router.get("/exports")
def list_exports(_: Reviewer, session: ReadSession, limit: Limit = PAGE, after: After = None) -> Page[ExportView]:
    """All of them, newest first."""
    return service.page_exports(session, None, after, limit)


@router.get("/exports/{export_id}")
def get_export(_: Reviewer, export_id: Id, session: ReadSession) -> ExportView:
    """One, with its files and what was left out and why."""
    return service.export_view(session, export_id)


@router.get("/exports/{export_id}/files/{name:path}", response_class=FileResponse)
def get_file(_: Reviewer, export_id: Id, name: str, request: Request, ctx: Ctx, session: ReadSession) -> Response:
    """One file; its `ETag` is its SHA-256, ranges are honoured."""
    path = service.export_file(ctx, session, export_id, name)
    etag = f'"{_sha256(session, export_id, path.name)}"'
    if etag in [part.strip() for part in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers={"ETag": etag})
    return FileResponse(path, filename=path.name, headers={"ETag": etag}, media_type="application/octet-stream")


def _sha256(session: Session, export_id: int, name: str) -> str:
    files = service.export_view(session, export_id).files
    return next((file.sha256 for file in files if file.name == name), "")
