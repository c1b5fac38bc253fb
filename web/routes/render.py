"""Rendering by hand: tokenizer and messages in, the exact prompt tokens out, before a GPU hour is spent on them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlmodel import Session
from starlette.responses import Response

from api.deps import Ctx, ReadSession, Reviewer
from db.errors import DomainError, Invalid, NotFound
from inference.context import Context
from inference.prompts import service as prompts
from inference.tokens.formats import all_formats
from inference.tokens.numbers import to_json
from web.forms import REFUSALS, Fields, Form, Refusal, refusal
from web.models import checkpoints, known_tokenizers
from web.rendering import Shown, Turn, at_field, failed_at, shown
from web.shell import Twin, page

router = APIRouter(prefix="/render")

EXAMPLE = '[\n  {"role": "user", "content": "Why do leaves fall?"}\n]'
_TWIN = '{"tokenizer": "…", "messages": [{"role": "user", "content": "…"}]}'
Number = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


@router.get("")
def show_form(
    request: Request,
    _: Reviewer,
    ctx: Ctx,
    session: ReadSession,
    tokenizer: str = "",
    prompt_set_id: Number = None,
    line: Number = None,
) -> Response:
    """The form, filled with the prompt on that line of a set where one is named."""
    refused = Refusal("", 200)
    items = [("messages", EXAMPLE)]
    if prompt_set_id is not None:
        try:
            items = _stored(session, prompt_set_id, line or 1)
        except DomainError as error:
            refused = Refusal(error.message, error.status, {"line": error.message})
        items += [("prompt_set_id", str(prompt_set_id)), ("line", str(line or 1))]
    found = checkpoints(ctx.settings.model_roots)
    if tokenizer or len(found) == 1:
        items.append(("tokenizer", tokenizer or found[0]))
    return _page(request, ctx, session, Fields(tuple(items)), refused)


@router.post("")
def render_messages(request: Request, user: Reviewer, ctx: Ctx, session: ReadSession, form: Form) -> Response:
    """The tokens, beside the form as it was filled."""
    messages: list[Any] = []
    try:
        tokenizer = ctx.tokenizers.get(form.get("tokenizer"), fetch=user.role != "reviewer")
        messages = form.json("messages", list, exact=True) or []
        tools = form.json("tools", list, exact=True)
        kwargs = form.json("chat_template_kwargs", dict)
        result = shown(tokenizer, messages, tools, kwargs, form.get("token_format"), _roles(form))
    except REFUSALS as error:
        refused = refusal(error)
        placed = Refusal(refused.message, refused.status, at_field(refused.errors, error))
        return _page(request, ctx, session, form, placed, faulty=failed_at(messages, error))
    return _page(request, ctx, session, form, Refusal("", 200), result)


def _stored(session: Session, prompt_set_id: int, line: int) -> list[tuple[str, str]]:
    prompt_id = prompts.prompt_at(session, prompt_set_id, line)
    body = prompts.prompt_bodies(session, [prompt_id]).get(prompt_id)
    if body is None:
        raise NotFound("prompt", prompt_id)
    items = [("messages", to_json(body.messages, ensure_ascii=False, indent=2))]
    if body.tools:
        items.append(("tools", to_json(body.tools, ensure_ascii=False, indent=2)))
    return items


def _roles(form: Fields) -> dict[str, str] | None:
    given: dict[str, str] | None = form.json("role_map", dict)
    if given is not None and not all(isinstance(name, str) for name in given.values()):
        raise Invalid("not_json", "role_map takes a JSON object of role names.", field="role_map")
    return given


def _body(form: Fields) -> str:
    """The form as the REST call takes it."""
    given = {"tokenizer": form.get("tokenizer"), "messages": form.json("messages", list, exact=True) or []}
    asked = {
        "role_map": _roles(form),
        "tools": form.json("tools", list, exact=True),
        "chat_template_kwargs": form.json("chat_template_kwargs", dict),
    }
    return to_json(given | {name: value for name, value in asked.items() if value is not None}, ensure_ascii=False)


def _page(
    request: Request,
    ctx: Context,
    session: Session,
    form: Fields,
    refused: Refusal,
    result: Shown | None = None,
    faulty: tuple[Turn, ...] = (),
) -> Response:
    view = {
        "values": form.values(),
        "errors": refused.errors,
        "problem": refused.message,
        "result": result,
        "faulty": faulty,
        "models": known_tokenizers(ctx, session),
        "formats": [(item.name, f"{item.name}: {item.title}") for item in all_formats()],
        "sets": [(item.id, f"{item.name} ({item.accepted:,})") for item in prompts.list_prompt_sets(session).items],
        "twin": Twin("/api/v1/render", "POST", _body(form) if result else _TWIN),
    }
    return page(request, "render.html", view, status=refused.status)
