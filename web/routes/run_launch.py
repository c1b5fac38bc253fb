"""A new run: form, preview with every resolved setting and its source, launch."""

from typing import Any

from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.responses import Response

from api.auth import audit
from api.deps import Ctx, Operator
from inference.backends import service as backends
from inference.context import Context
from inference.prompts import service as prompts
from inference.runs import launch
from inference.runs.settings import NewRun
from inference.tokens.formats import all_formats
from web.forms import REFUSALS, Fields, Form, Refusal, refusal
from web.launching import CHECKS_SHOWN, RENDER_FAULTS, check_groups, chosen_checks, suggestions
from web.models import known_tokenizers
from web.shell import Twin, page, see

router = APIRouter(prefix="/runs")

PLAIN = (
    "name",
    "prompt_set_id",
    "tokenizer",
    "token_format",
    "sampling.temperature",
    "sampling.top_p",
    "sampling.top_k",
    "sampling.min_p",
    "sampling.max_new_tokens",
    "repeats",
    "limit",
    "concurrency",
    "seed",
    "render_faults",
)
_FOLDED = ("chat_template_kwargs", "role_map", "seed", "no_guard", "render_faults")


def new_run(form: Fields) -> NewRun:
    """The request that the form stands for.

    Raises:
        ValidationError: a value out of bounds.
        Invalid: the template settings are not a JSON object.
    """
    data: dict[str, Any] = form.tree(PLAIN)
    data["backend_ids"] = form.all("backend_ids")
    categories = [part.strip() for part in form.get("categories").split(",") if part.strip()]
    if categories:
        data["categories"] = categories
    for name in ("chat_template_kwargs", "role_map"):
        given = form.json(name, dict)
        if given is not None:
            data[name] = given
    checks = chosen_checks(form)
    if checks:
        data["checks"] = checks
    if form.get("no_guard"):
        data["guard"] = None
    return NewRun.model_validate(data)


@router.get("/new")
def show_form(request: Request, _: Operator, ctx: Ctx, prompt_set_id: int | None = None) -> Response:
    """The form, with the only backend and the newest prompt set chosen."""
    with ctx.db.read() as session:
        sets = _sets(session)
        found = backends.list_backends(session)
        items: list[tuple[str, str]] = [("backend_ids", str(found[0].id))] if len(found) == 1 else []
    if prompt_set_id is not None:
        items.append(("prompt_set_id", str(prompt_set_id)))
    chosen = next((name for number, name in sets if number == prompt_set_id), sets[0][1] if sets else "")
    if chosen:
        items.append(("name", chosen.partition(" (")[0]))
    return _form(request, ctx, Fields(tuple(items)), Refusal("", 200))


@router.post("/edit")
def change_form(request: Request, _: Operator, ctx: Ctx, form: Form) -> Response:
    """Back from the preview, as it was filled in."""
    return _form(request, ctx, form, Refusal("", 200))


@router.post("/new")
def preview(request: Request, _: Operator, ctx: Ctx, form: Form) -> Response:
    """What a launch would do; sends nothing."""
    try:
        new = new_run(form)
        with ctx.db.read() as session:
            shown = launch.preview_run(session, ctx, new)
    except REFUSALS as error:
        return _form(request, ctx, form, refusal(error))
    view = {
        "name": new.name,
        "preview": shown,
        "fields": [(name, value) for name, value in form.items if name != "csrf"],
        "twin": Twin("/api/v1/runs", "POST", new.model_dump_json(exclude_unset=True, exclude_none=True)),
    }
    return page(request, "run_preview.html", view)


@router.post("")
def launch_run(request: Request, user: Operator, ctx: Ctx, form: Form) -> Response:
    """Freeze the settings and queue the run."""
    try:
        new = new_run(form)
        with ctx.db.write() as session:
            run = launch.create_run(session, ctx, new, user.id)
            audit.record(
                session, user, "run.launch", f"run/{run.id}", {"name": run.name, "fingerprint": run.fingerprint}
            )
            run_id = run.id
    except REFUSALS as error:
        return _form(request, ctx, form, refusal(error))
    return see(f"/runs/{run_id}")


def _sets(session: Session) -> list[tuple[int, str]]:
    found = prompts.list_prompt_sets(session)
    return [(item.id, f"{item.name} ({item.accepted:,} prompts)") for item in found.items]


def _form(request: Request, ctx: Context, form: Fields, refused: Refusal) -> Response:
    with ctx.db.read() as session:
        sets = _sets(session)
        rows = backends.list_backends(session)
        found = [backends.backend_view(session, backend) for backend in rows]
        fitting = suggestions(ctx, form, rows)
        models = known_tokenizers(ctx, session)
    groups = check_groups(form)
    errors = {("role_map" if name.startswith("role_map.") else name): text for name, text in refused.errors.items()}
    view = {
        "values": form.values(),
        "chosen": set(form.all("backend_ids")),
        "errors": errors,
        "problem": refused.message,
        "sets": sets,
        "backends": [(item.id, item.name, item.observed_state.replace("_", " ")) for item in found],
        "formats": [(item.name, f"{item.name}: {item.title}") for item in all_formats()],
        "fitting": fitting,
        "blank_format": f"{fitting[0].name}, which fits" if len(fitting) == 1 else "the one that fits the tokenizer",
        "models": models,
        "checks": groups,
        "checks_on": sum(box.on for group in groups for box in group.boxes),
        "checks_all": sum(len(group.boxes) for group in groups),
        "checks_error": next((text for name, text in refused.errors.items() if name.startswith("checks")), ""),
        "checks_open": bool(chosen_checks(form)) or any(name.startswith("checks") for name in refused.errors),
        "checks_shown": CHECKS_SHOWN,
        "fault_options": RENDER_FAULTS,
        "advanced": any(form.get(name) or name in errors for name in _FOLDED),
        "twin": Twin("/api/v1/runs", "POST", '{"name": "…", "prompt_set_id": 1, "backend_ids": [1]}'),
    }
    return page(request, "run_new.html", view, status=refused.status)
