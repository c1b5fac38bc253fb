"""What people say of a sample: verdict, tags, note, comments."""

from typing import Annotated

from fastapi import Path, Request, Response

from api.deps import Audit, BigId, ReadSession, Reviewer, WriteSession
from api.etags import version_of
from api.jsonbody import make_router
from api.schemas import NewComment, ReviewBody
from inference.model import Page
from inference.review import comments, reviews
from inference.review.views import CommentView, MyReview, VerdictOnSample

router = make_router(tag="review", prefix="/samples/{sample_id}")

TagName = Annotated[str, Path(max_length=60)]


@router.put("/review")
def put_review(
    user: Reviewer,
    sample_id: BigId,
    body: ReviewBody,
    request: Request,
    session: WriteSession,
    audit: Audit,
    response: Response,
) -> MyReview:
    """My whole word on the current attempt; what is left out is taken away. `ETag` and `If-Match` are its version."""
    mine = reviews.put_review(session, sample_id, user.id, body.verdict, body.tags, body.note, version_of(request))
    audit("review.put", f"sample/{sample_id}", verdict=body.verdict, tags=body.tags)
    return _tagged(response, mine)


@router.get("/reviews")
def list_reviews(_: Reviewer, sample_id: BigId, session: ReadSession) -> Page[VerdictOnSample]:
    """Everybody's word on the current attempt."""
    return Page(items=reviews.list_reviews(session, sample_id))


@router.put("/tags/{tag:path}")
def set_tag(
    user: Reviewer, sample_id: BigId, tag: TagName, session: WriteSession, audit: Audit, response: Response
) -> MyReview:
    """Put one of my tags on."""
    mine = reviews.set_tag(session, sample_id, user.id, tag)
    audit("tag.set", f"sample/{sample_id}", tag=tag)
    return _tagged(response, mine)


@router.delete("/tags/{tag:path}")
def unset_tag(
    user: Reviewer, sample_id: BigId, tag: TagName, session: WriteSession, audit: Audit, response: Response
) -> MyReview:
    """Take one of my tags off."""
    mine = reviews.unset_tag(session, sample_id, user.id, tag)
    audit("tag.unset", f"sample/{sample_id}", tag=tag)
    return _tagged(response, mine)


@router.get("/comments")
def list_comments(_: Reviewer, sample_id: BigId, session: ReadSession) -> Page[CommentView]:
    """Every remark, oldest first."""
    return Page(items=comments.list_comments(session, sample_id))


@router.post("/comments", status_code=201)
def add_comment(user: Reviewer, sample_id: BigId, body: NewComment, session: WriteSession, audit: Audit) -> CommentView:
    """A remark on the whole, or on a token range of the output."""
    comment = comments.add_comment(session, sample_id, user.id, body.body, body.start, body.end)
    audit("comment.add", f"sample/{sample_id}", comment=comment.id)
    return comment


def _tagged(response: Response, mine: MyReview) -> MyReview:
    response.headers["ETag"] = f'"{mine.version}"'
    return mine
