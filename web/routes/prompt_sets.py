"""Prompt sets: an upload form, the list, and one set with its categories, refusals and prompts."""

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.auth import Identity, audit
from api.deps import After, Ctx, CurrentUser, Id, Operator, ReadSession, Reviewer, Upload
from db.errors import DomainError
from inference.context import Context
from inference.prompts import service
from web.filters import address
from web.shell import Twin, page, see

router = APIRouter(prefix="/prompt-sets")

PAGE = 50


def _list(request: Request, ctx: Context, problem: str = "", status: int = 200) -> Response:
    with ctx.db.read() as session:
        view = {
            "sets": service.list_prompt_sets(session).items,
            "problem": problem,
            "max_upload_mb": ctx.settings.max_upload_mb,
            "twin": Twin("/api/v1/prompt-sets"),
        }
        return page(request, "prompt_sets.html", view, status=status)


@router.get("")
def list_prompt_sets(request: Request, _: Reviewer, ctx: Ctx) -> Response:
    """All of them, and the upload form."""
    return _list(request, ctx)


@router.post("")
async def upload(request: Request, user: Operator, incoming: Upload, ctx: Ctx) -> Response:
    """Receive a file as it streams in, read it, and show what came of it."""
    try:
        made = await service.create_prompt_set(
            ctx,
            name=incoming.fields.get("name", "").strip() or incoming.file_name,
            stream=incoming.stream,
            file_name=incoming.file_name,
            content_type=incoming.content_type,
            content_encoding=incoming.content_encoding,
            user_id=user.id,
        )
    except DomainError as error:
        return await run_sync(_list, request, ctx, error.message, error.status)
    await run_sync(_note, ctx, user, "prompt_set.create", made.id)
    return see(f"/prompt-sets/{made.id}")


@router.get("/{set_id}")
def show_prompt_set(
    request: Request, set_id: Id, _: Reviewer, session: ReadSession, category: str | None = None, after: After = None
) -> Response:
    """One set."""
    base = f"/prompt-sets/{set_id}"
    prompts = service.list_prompts(session, set_id, category, after, PAGE)
    chosen = [] if category is None else [("category", category)]
    view = {
        "set": service.prompt_set_view(session, set_id),
        "prompts": prompts,
        "category": category,
        "first_page": address(base, chosen) if after else None,
        "next_page": address(base, [*chosen, ("after", prompts.next)]) if prompts.next else None,
        "twin": Twin(f"/api/v1/prompt-sets/{set_id}/prompts"),
    }
    return page(request, "prompt_set.html", view)


@router.post("/{set_id}/delete")
def delete_prompt_set(set_id: Id, user: Operator, ctx: Ctx, _: CurrentUser) -> Response:
    """Remove one that no run uses."""
    service.delete_prompt_set(ctx, set_id)
    _note(ctx, user, "prompt_set.delete", set_id)
    return see("/prompt-sets")


def _note(ctx: Context, user: Identity, action: str, set_id: int) -> None:
    with ctx.db.write() as session:
        audit.record(session, user, action, f"prompt-set/{set_id}")
