"""Prompt sets: received, looked at, deleted."""

from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Query, Request, Response

from api.auth import audit as audit_log
from api.auth.identity import Identity
from api.deps import PAGE, After, Ctx, Id, Limit, Operator, ReadSession, Reviewer, Upload
from api.errors import Problem, problem_response
from api.etags import check_match, etag_of
from api.jsonbody import make_router
from inference.context import Context
from inference.model import Page
from inference.prompts import service
from inference.prompts.views import PromptSetView, PromptView, RowErrorView

router = make_router(tag="prompt sets", prefix="/prompt-sets")

UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "description": "A file as the multipart field `file`, or raw; gzip and zstd are read as well.",
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
            **{
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in (
                    "application/x-ndjson",
                    "application/json",
                    "text/csv",
                    "application/vnd.apache.parquet",
                )
            },
        },
    }
}


@router.get("")
def list_prompt_sets(
    _: Reviewer, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[PromptSetView]:
    """All of them, newest first."""
    return service.list_prompt_sets(session, after, limit)


@router.post("", status_code=201, openapi_extra=UPLOAD_BODY, response_model=PromptSetView)
async def create_prompt_set(
    request: Request,
    user: Operator,
    upload: Upload,
    ctx: Ctx,
    response: Response,
    name: Annotated[str, Query(max_length=200, description="Left out: the file's name.")] = "",
) -> PromptSetView | Response:
    """Receive a file and read it; answered when read, with what was refused by line and reason.

    A file with nothing usable in it is an error, so that a script notices, and leaves nothing behind: the answer has the
    sentence and the first rows' errors, which is all there is to know of it.
    """
    made = await service.create_prompt_set(
        ctx,
        name=name or upload.fields.get("name", ""),
        stream=upload.stream,
        file_name=upload.file_name,
        content_type=upload.content_type,
        content_encoding=upload.content_encoding,
        user_id=user.id,
    )
    if made.state == "failed":
        await run_sync(service.delete_prompt_set, ctx, made.id)
        return problem_response(request, _unusable(made))
    await run_sync(_note, ctx, user, "prompt_set.create", made.id, made.name)
    response.headers["Location"] = f"/api/v1/prompt-sets/{made.id}"
    return made


def _unusable(made: PromptSetView) -> Problem:
    rows = [row.model_dump() for row in made.errors]
    counts = {"accepted": made.accepted, "rejected": made.rejected, "errors": rows}
    return Problem(422, "prompt_set_unusable", made.message, "file", extra=counts)


@router.get("/{prompt_set_id}")
def get_prompt_set(_: Reviewer, prompt_set_id: Id, session: ReadSession, response: Response) -> PromptSetView:
    """One, with its first 20 errors."""
    found = service.prompt_set_view(session, prompt_set_id)
    response.headers["ETag"] = _etag(found)
    return found


@router.get("/{prompt_set_id}/prompts")
def list_prompts(
    _: Reviewer,
    prompt_set_id: Id,
    session: ReadSession,
    category: Annotated[str | None, Query(description="Only this one.")] = None,
    limit: Limit = PAGE,
    after: After = None,
) -> Page[PromptView]:
    """Its prompts, in the upload's order."""
    return service.list_prompts(session, prompt_set_id, category, after, limit)


@router.get("/{prompt_set_id}/errors")
def list_errors(
    _: Reviewer, prompt_set_id: Id, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[RowErrorView]:
    """Every row that was refused, or taken with a notice."""
    return service.list_errors(session, prompt_set_id, after, limit)


@router.delete("/{prompt_set_id}", status_code=204)
def delete_prompt_set(user: Operator, prompt_set_id: Id, request: Request, ctx: Ctx) -> Response:
    """Remove one that no run uses."""
    with ctx.db.read() as session:
        check_match(request, _etag(service.prompt_set_view(session, prompt_set_id)))
    service.delete_prompt_set(ctx, prompt_set_id)
    _note(ctx, user, "prompt_set.delete", prompt_set_id, "")
    return Response(status_code=204)


def _etag(prompt_set: PromptSetView) -> str:
    return etag_of(prompt_set.id, prompt_set.state, prompt_set.sha256)


def _note(ctx: Context, user: Identity, action: str, prompt_set_id: int, name: str) -> None:
    with ctx.db.write() as session:
        audit_log.record(session, user, action, f"prompt-set/{prompt_set_id}", {"name": name} if name else {})
