"""Changing a backend: its name at any time, how it is started or reached while it is at rest."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from api.auth import Identity, audit
from api.deps import Ctx, Id, Operator
from api.etags import etag_of
from db.errors import Conflict
from db.tables import Backend
from inference.backends import service
from inference.backends.actions import at_rest
from inference.backends.launch.spec import LaunchSpec
from inference.context import Context
from web import launchform
from web.forms import REFUSALS, Fields, Form, Refusal, refusal
from web.models import checkpoints
from web.routes.backend_new import PREVIEW
from web.shell import Twin, page, see

router = APIRouter(prefix="/backends")


@router.get("/{backend_id}/edit")
def edit_backend(request: Request, backend_id: Id, _: Operator, ctx: Ctx) -> Response:
    """The form, as the backend is now."""
    return _form(request, ctx, backend_id, None, Refusal("", 200))


@router.post("/{backend_id}/edit")
def change_backend(request: Request, backend_id: Id, user: Operator, ctx: Ctx, form: Form) -> Response:
    """Change it; or show the command that it would then have."""
    try:
        if form.get("do") == PREVIEW:
            shown = launchform.shown_command(ctx.settings, form)
            return _form(request, ctx, backend_id, form, Refusal("", 200), shown)
        _change(ctx, user, backend_id, form)
    except REFUSALS as error:
        prefix = launchform.PREFIX if form.get("do") == PREVIEW else ""
        return _form(request, ctx, backend_id, form, refusal(error, prefix))
    return see(f"/backends/{backend_id}")


def _change(ctx: Context, user: Identity, backend_id: int, form: Fields) -> None:
    with ctx.db.write() as session:
        backend = service.get_backend(session, backend_id)
        if form.get("seen") != _seen(backend):
            raise Conflict(
                "backend_changed", f"Somebody changed {backend.name} meanwhile: look at it again, then change it."
            )
        changes = service.BackendChanges.model_validate(_changes(backend, form))
        if not changes.model_fields_set:
            return
        service.patch_backend(session, ctx.settings, backend_id, changes)
        audit.record(
            session, user, "backend.change", f"backend/{backend_id}", {"fields": sorted(changes.model_fields_set)}
        )


def _changes(backend: Backend, form: Fields) -> dict[str, Any]:
    """What the form says otherwise than the backend: what is not changed keeps what is known of the server."""
    data: dict[str, Any] = {}
    if form.get("name") != backend.name:
        data["name"] = form.get("name")
    if backend.kind == "managed" and form.get(f"{launchform.PREFIX}model_path"):
        launch = launchform.read_launch(form)
        if not _same(launch, backend.launch or {}):
            data["launch"] = launch
    elif backend.kind != "managed":
        if form.get("url") and form.get("url") != backend.url:
            data["url"] = form.get("url")
        if form.get("api_key") or form.get("forget_key"):
            data["api_key"] = form.get("api_key")
    return data


def _same(launch: dict[str, Any], stored: dict[str, Any]) -> bool:
    try:
        return LaunchSpec.model_validate(launch) == LaunchSpec.model_validate(stored)
    except ValidationError:
        return False


def _seen(backend: Backend) -> str:
    """What was there when the form was drawn."""
    return etag_of(backend.name, backend.url, backend.launch, backend.api_key is not None)


def _form(
    request: Request,
    ctx: Context,
    backend_id: int,
    form: Fields | None,
    refused: Refusal,
    shown: launchform.Shown | None = None,
) -> Response:
    with ctx.db.read() as session:
        backend = service.get_backend(session, backend_id)
    if form is None:
        items = (("name", backend.name), ("url", backend.url or ""), ("seen", _seen(backend)))
        form = Fields((*items, *launchform.form_of(backend.launch or {})))
    errors = launchform.at_fields(refused.errors)
    view = {
        "id": backend_id,
        "name": backend.name,
        "kind": backend.kind,
        "state": backend.observed_state,
        "at_rest": at_rest(backend),
        "has_key": backend.api_key is not None,
        "seen": form.get("seen"),
        "values": form.values(),
        "errors": errors,
        "problem": refused.message,
        "shown": shown,
        "sections": launchform.sections(form, errors),
        "gpus": launchform.gpu_choice(form),
        "roots": ", ".join(str(root) for root in ctx.settings.model_roots),
        "models": checkpoints(ctx.settings.model_roots),
        "twin": Twin(f"/api/v1/backends/{backend_id}", "PATCH", '{"name": "…"}'),
    }
    return page(request, "backend_edit.html", view, status=refused.status)
