"""The families that are known, with their markers; beside a tokenizer: which one fits it, and why."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import Ctx, ReadSession, Reviewer
from web.families import declared, fitted
from web.forms import REFUSALS, Refusal, refusal
from web.models import known_tokenizers
from web.shell import Twin, page

router = APIRouter(prefix="/token-formats")


@router.get("")
def show_formats(request: Request, _: Reviewer, ctx: Ctx, session: ReadSession, tokenizer: str = "") -> Response:
    """All families; with a tokenizer, its ids for each, and the suggestion."""
    wanted, refused = tokenizer.strip(), Refusal("", 200)
    fitting = declared()
    if wanted:
        try:
            fitting = fitted(wanted, ctx.tokenizers.get(wanted, fetch=False))
        except REFUSALS as error:
            refused = refusal(error)
    twin = Twin("/api/v1/token-formats")
    if fitting.suggestion:
        twin = Twin("/api/v1/token-formats/suggest", query=urlencode({"tokenizer": wanted}))
    view = {
        "fitting": fitting,
        "values": {"tokenizer": tokenizer},
        "errors": refused.errors or ({"tokenizer": refused.message} if refused.message else {}),
        "models": known_tokenizers(ctx, session),
        "twin": twin,
    }
    return page(request, "token_formats.html", view, status=refused.status)
