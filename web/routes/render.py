"""Rendering by hand: tokenizer and messages in, the exact prompt tokens out."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from api.deps import Ctx, Reviewer
from inference.context import Context
from inference.tokens.pieces import pieces
from inference.tokens.rendering import RenderWarning, render
from web import strip
from web.forms import REFUSALS, Fields, Form, Refusal, refusal
from web.models import checkpoints
from web.shell import Twin, page

router = APIRouter(prefix="/render")

EXAMPLE = '[\n  {"role": "user", "content": "Why do leaves fall?"}\n]'


@dataclass(frozen=True, slots=True)
class Rendering:
    """What came out."""

    strip: Markup
    count: int
    ids: str
    warnings: tuple[RenderWarning, ...]


@dataclass(frozen=True, slots=True)
class _Whole:
    kind: str
    start: int
    end: int


@router.get("")
def show_form(request: Request, _: Reviewer, ctx: Ctx, tokenizer: str = "") -> Response:
    """The form."""
    items = [("messages", EXAMPLE)]
    found = checkpoints(ctx.settings.model_roots)
    if tokenizer or len(found) == 1:
        items.append(("tokenizer", tokenizer or found[0]))
    return _page(request, ctx, Fields(tuple(items)), Refusal("", 200), None)


@router.post("")
def render_messages(request: Request, _: Reviewer, ctx: Ctx, form: Form) -> Response:
    """The tokens, beside the form as it was filled."""
    try:
        result = _render(ctx, form)
    except REFUSALS as error:
        return _page(request, ctx, form, refusal(error), None)
    return _page(request, ctx, form, Refusal("", 200), result)


def _render(ctx: Context, form: Fields) -> Rendering:
    tokenizer = ctx.tokenizers.get(form.get("tokenizer"))
    messages = form.json("messages", list, exact=True) or []
    tools = form.json("tools", list, exact=True)
    kwargs = form.json("chat_template_kwargs", dict)
    rendered = render(tokenizer, messages, tools, kwargs)
    ids = [int(token) for token in rendered.ids]
    drawn = strip.strip(pieces(tokenizer, ids), [_Whole("prompt", 0, len(ids))], prefix="p")
    return Rendering(drawn, len(ids), ", ".join(map(str, ids)), tuple(rendered.warnings))


def _page(request: Request, ctx: Context, form: Fields, refused: Refusal, result: Rendering | None) -> Response:
    view = {
        "values": form.values(),
        "errors": refused.errors,
        "problem": refused.message,
        "result": result,
        "models": checkpoints(ctx.settings.model_roots),
        "twin": Twin("/api/v1/render", "POST", '{"tokenizer": "…", "messages": [{"role": "user", "content": "…"}]}'),
    }
    return page(request, "render.html", view, status=refused.status)
