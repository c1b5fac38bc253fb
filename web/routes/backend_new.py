"""A new backend: the form, and making what it says."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.auth import Identity, audit
from api.deps import Ctx, Operator
from inference.backends import service
from inference.context import Context
from web.forms import REFUSALS, Fields, Form, Refusal, refusal
from web.models import checkpoints
from web.shell import Twin, page, see

router = APIRouter(prefix="/backends")

DEVICES = (("cuda", "CUDA"), ("cpu", "CPU"), ("xpu", "XPU"), ("hpu", "HPU"), ("npu", "NPU"), ("musa", "MUSA"))
DTYPES = tuple((name, name) for name in ("bfloat16", "float16", "float32"))
LAUNCH = tuple(
    f"launch.{name}"
    for name in (
        "model_path",
        "tokenizer_path",
        "device",
        "tp_size",
        "context_length",
        "mem_fraction_static",
        "max_total_tokens",
        "max_running_requests",
        "dtype",
        "attention_backend",
        "quantization",
        "reasoning_parser",
        "tool_call_parser",
    )
)


@router.get("/new")
def new_backend(request: Request, _: Operator, ctx: Ctx) -> Response:
    """The form."""
    return _form(request, ctx, Fields(), Refusal("", 200))


@router.post("/new")
def create_backend(request: Request, user: Operator, ctx: Ctx, form: Form) -> Response:
    """Make it, and start it where that was asked for."""
    try:
        backend_id = _create(ctx, user, form)
    except REFUSALS as error:
        return _form(request, ctx, form, refusal(error))
    return see(f"/backends/{backend_id}")


def _create(ctx: Context, user: Identity, form: Fields) -> int:
    managed = form.get("kind") != "attached"
    data: dict[str, Any] = {"kind": "managed" if managed else "attached", **form.tree(["name"])}
    if managed:
        data |= form.tree(LAUNCH)
        extra = form.json("extra_flags", dict)
        if extra is not None:
            data.setdefault("launch", {})["extra_flags"] = extra
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


def _form(request: Request, ctx: Context, form: Fields, refused: Refusal) -> Response:
    values = form.values()
    view = {
        "values": values or {"start": "1"},
        "kind": values.get("kind", "managed"),
        "errors": refused.errors,
        "problem": refused.message,
        "devices": DEVICES,
        "dtypes": DTYPES,
        "roots": ", ".join(str(root) for root in ctx.settings.model_roots),
        "models": checkpoints(ctx.settings.model_roots),
        "twin": Twin("/api/v1/backends", "POST", '{"name": "…", "kind": "managed", "launch": {"model_path": "…"}}'),
    }
    return page(request, "backend_new.html", view, status=refused.status)
