"""Tokens without a run: formats, flag codes, rendering and cutting."""

from api.deps import PAGE, After, Ctx, Limit, Reviewer
from api.jsonbody import make_router
from api.schemas import (
    FlagCodeView,
    RenderedView,
    RenderRequest,
    RenderWarningView,
    SegmentRequest,
    SuggestedFormat,
    TokenFormatView,
)
from db.queries.pages import page_of_few
from inference.model import Page
from inference.quality.flags import FLAG_CODES
from inference.review.reading import piece_views
from inference.review.samples import Segmented, segment_ids
from inference.runs.switches import is_switchable
from inference.tokens.formats import all_formats
from inference.tokens.rendering import render
from inference.tokens.suggestion import suggest

router = make_router(tag="tokens", exact=True)


@router.get("/token-formats")
def token_formats(_: Reviewer, limit: Limit = PAGE, after: After = None) -> Page[TokenFormatView]:
    """Every model family that is known, and its markers; `none` last."""
    found, following = page_of_few(all_formats(), lambda known: (int(known.name == "none"), known.name), after, limit)
    return Page(items=[TokenFormatView.of(known) for known in found], next=following)


@router.get("/token-formats/suggest")
def suggest_format(_: Reviewer, ctx: Ctx, tokenizer: str) -> SuggestedFormat:
    """The format that a run with this tokenizer would take, and the reason (by its tokens, chat template and config).

    A GET fetches nothing: a hub id must be in the hub's cache.
    """
    found = suggest(ctx.tokenizers.get(tokenizer, fetch=False))
    return SuggestedFormat(name=found.name, reason=found.reason, alternatives=list(found.alternatives))


@router.get("/flags")
def flag_codes(_: Reviewer, limit: Limit = PAGE, after: After = None) -> Page[FlagCodeView]:
    """Every flag code, its severity and its meaning, by code."""
    found, following = page_of_few(FLAG_CODES.values(), lambda flag: (flag.code,), after, limit)
    items = [
        FlagCodeView(
            code=flag.code,
            severity=flag.severity,
            meaning=flag.meaning,
            needs=flag.needs,
            default=flag.default,
            switchable=is_switchable(flag.code),
        )
        for flag in found
    ]
    return Page(items=items, next=following)


@router.post("/render")
def render_prompt(user: Reviewer, body: RenderRequest, ctx: Ctx) -> RenderedView:
    """A conversation as the exact prompt ids that a run would send."""
    tokenizer = ctx.tokenizers.get(body.tokenizer, fetch=user.role != "reviewer")
    rendered = render(
        tokenizer,
        body.messages,
        body.tools,
        body.chat_template_kwargs,
        token_format=body.token_format,
        role_map=body.role_map,
    )
    return RenderedView(
        ids=rendered.ids.tolist(),
        text=rendered.text,
        pieces=piece_views(tokenizer, rendered.ids),
        warnings=[RenderWarningView(**warning._asdict()) for warning in rendered.warnings],
    )


@router.post("/segment")
def segment(user: Reviewer, body: SegmentRequest, ctx: Ctx) -> Segmented:
    """Output ids cut into segments that tile them, and what the checks find."""
    return segment_ids(
        ctx,
        body.tokenizer,
        body.token_format,
        body.prompt_ids,
        body.output_ids,
        body.finish_reason,
        body.tools,
        fetch=user.role != "reviewer",
    )
