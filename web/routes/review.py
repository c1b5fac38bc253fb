"""What people say on the sample page: verdict, tags and note in one form, comments, new tags.

The review form is sent two ways: by the browser (then on to the next sample by 303), or by the page's script with
`Accept: application/json` (then the review as saved). Both name the attempt that was looked at: a verdict never lands on an
answer that its author did not see.
"""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from api.auth import Identity, audit
from api.deps import Audit, Ctx, Id, Reviewer, WriteSession
from api.errors import wants_page
from db.errors import DomainError, PreconditionFailed
from inference.context import Context
from inference.review import reviews as reviewing
from inference.review import samples as service
from inference.review.views import MyReview
from web import sample as models
from web.filters import PageFilter
from web.forms import Fields, Form
from web.routes.samples import NOTHING, Look, draw
from web.shell import see

router = APIRouter()


@router.post("/samples/{sample_id}/review")
def save_review(
    request: Request, sample_id: Id, user: Reviewer, form: Form, flt: PageFilter, ctx: Ctx, view: str = "split"
) -> Response:
    """Save my verdict, tags and note; move on only when they are saved."""
    where = models.Address(flt, view if view in models.VIEWS else "split")
    try:
        saved = _save(ctx, sample_id, user, form)
    except DomainError as error:
        if not wants_page(request):
            raise
        return _not_saved(request, ctx, sample_id, user, form, where, error)
    if not wants_page(request):
        return JSONResponse(saved.model_dump(mode="json"), headers={"Cache-Control": "no-store"})
    if form.get("then") != "next":
        return see(where.of(sample_id))
    with ctx.db.read() as session:
        following = service.sample_neighbours(session, sample_id, flt).next
    return see(where.of(following) if following is not None else where.of(sample_id, end=1))


def _save(ctx: Context, sample_id: int, user: Identity, form: Fields) -> MyReview:
    verdict = form.get("verdict") or None
    tags = form.all("tags")
    with ctx.db.write() as session:
        version, seen = form.integer("version"), form.integer("attempt")
        saved = reviewing.put_review(
            session, sample_id, user.id, verdict, tags, form.text("note"), version, attempt=seen
        )
        audit.record(session, user, "review.put", f"sample/{sample_id}", {"verdict": verdict, "tags": tags})
        return saved


def _not_saved(
    request: Request,
    ctx: Context,
    sample_id: int,
    user: Identity,
    form: Fields,
    where: models.Address,
    error: DomainError,
) -> Response:
    """The page again with what was typed; the form then carries the newest version, so that saving again is a decision."""
    with ctx.db.read() as session:
        stored = service.sample_view(session, ctx, sample_id, user.id).my_review or NOTHING
        typed = MyReview(
            verdict=form.get("verdict") or None,
            tags=form.all("tags"),
            note=form.text("note"),
            version=stored.version,
            updated_at=None,
        )
        more = ""
        if isinstance(error, PreconditionFailed):
            said = stored.verdict or "no verdict"
            more = f" Stored is: {said}{', tags ' + ', '.join(stored.tags) if stored.tags else ''}. What you chose is still below; save again to replace it."
        return draw(
            request,
            ctx,
            session,
            user,
            sample_id,
            Look(where),
            mine=typed,
            problem=f"NOT SAVED. {error.message}{more}",
            status=error.status,
        )


@router.post("/samples/{sample_id}/comments")
def add_comment(
    sample_id: Id, user: Reviewer, form: Form, flt: PageFilter, session: WriteSession, note: Audit, view: str = "split"
) -> Response:
    """A remark on the whole, or on a token range."""
    comment = reviewing.add_comment(
        session, sample_id, user.id, form.text("body"), form.integer("start"), form.integer("end")
    )
    note("comment.add", f"sample/{sample_id}", comment=comment.id)
    return see(models.Address(flt, view if view in models.VIEWS else "split").of(sample_id))


@router.post("/tags")
def add_tag(user: Reviewer, form: Form, session: WriteSession, note: Audit, next: str = "/") -> Response:  # noqa: A002  (its name in the URL)
    """A new tag, then back to where it was wanted."""
    tag = reviewing.create_tag(session, form.get("name"), None, user.id)
    note("tag.create", f"tag/{tag.id}", name=tag.name)
    local = next.startswith("/") and not next.startswith("//") and "\\" not in next and next.isprintable()
    return see(next if local else "/")
