"""A new backend: the form, the command it would run, and making what it says; and which flags a server may get."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.auth import Identity, audit
from api.deps import Ctx, Id, Operator, Reviewer
from inference.backends import offers, service
from inference.context import Context
from web import launchform
from web.forms import REFUSALS, Fields, Form, Refusal, refusal
from web.models import checkpoints
from web.shell import Twin, page, see

router = APIRouter(prefix="/backends")

PREVIEW = "preview"
"""What the button “Show command” sends as `do`"""


@router.get("/new")
def new_backend(request: Request, _: Operator, ctx: Ctx, kind: str = "managed", like: Id | None = None) -> Response:
    """The form; `like` fills it with the launch of another backend."""
    items: tuple[tuple[str, str], ...] = (("kind", kind), ("start", "1"))
    if like is not None:
        items = (("start", "1"), *_copied(ctx, like))
    return _form(request, ctx, Fields(items), Refusal("", 200))


@router.post("/new")
def create_backend(request: Request, user: Operator, ctx: Ctx, form: Form) -> Response:
    """Make it, and start it where that was asked for; or show its command."""
    try:
        if form.get("do") == PREVIEW:
            return _form(request, ctx, form, Refusal("", 200), launchform.shown_command(ctx.settings, form))
        backend_id = _create(ctx, user, form)
    except REFUSALS as error:
        prefix = launchform.PREFIX if form.get("do") == PREVIEW else ""
        return _form(request, ctx, form, refusal(error, prefix))
    return see(f"/backends/{backend_id}")


@router.get("/flags")
def list_flags(request: Request, _: Reviewer, ctx: Ctx) -> Response:
    """SGLang's further flags, by policy."""
    view = {"flags": offers.launch_fields(ctx.settings).flags, "twin": Twin("/api/v1/launch-fields")}
    return page(request, "launch_flags.html", view)


def _create(ctx: Context, user: Identity, form: Fields) -> int:
    managed = form.get("kind") != "attached"
    data: dict[str, Any] = {"kind": "managed" if managed else "attached", **form.tree(["name"])}
    if managed:
        data["launch"] = launchform.read_launch(form)
    else:
        data |= form.tree(["url", "api_key"])
    new = service.NewBackend.model_validate(data)
    with ctx.db.write() as session:
        backend = service.create_backend(session, ctx.settings, new, user.id)
        assert backend.id is not None  # noqa: S101  (flushed)
        audit.record(
            session, user, "backend.create", f"backend/{backend.id}", {"name": backend.name, "kind": backend.kind}
        )
        if not managed or form.get("start"):
            service.request_action(session, backend.id, "start", settings=ctx.settings, user_id=user.id)
        return backend.id


def _copied(ctx: Context, backend_id: int) -> tuple[tuple[str, str], ...]:
    """The form of another backend's twin: its key stays where it is."""
    with ctx.db.read() as session:
        backend = service.get_backend(session, backend_id)
        head = (("kind", backend.kind), ("name", f"{backend.name} copy"))
        return (*head, *launchform.form_of(backend.launch or {}), ("url", backend.url or ""))


def _form(
    request: Request, ctx: Context, form: Fields, refused: Refusal, shown: launchform.Shown | None = None
) -> Response:
    errors = launchform.at_fields(refused.errors)
    kind = "attached" if form.get("kind") == "attached" else "managed"
    body = (
        '{"name": "…", "kind": "managed", "launch": {"model_path": "…"}}'
        if kind == "managed"
        else '{"name": "…", "kind": "attached", "url": "http://…"}'
    )
    view = {
        "values": form.values(),
        "kind": kind,
        "errors": errors,
        "problem": refused.message,
        "shown": shown,
        "sections": launchform.sections(form, errors),
        "gpus": launchform.gpu_choice(form),
        "roots": ", ".join(str(root) for root in ctx.settings.model_roots),
        "models": checkpoints(ctx.settings.model_roots),
        "twin": Twin("/api/v1/backends", "POST", body),
    }
    return page(request, "backend_new.html", view, status=refused.status)
