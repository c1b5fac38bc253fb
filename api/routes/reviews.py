"""What people say of a sample: verdict, tags, note, comments."""

from typing import Annotated

from fastapi import Depends, Path, Response

from api.deps import PAGE, After, Audit, BigId, Limit, ReadSession, Reviewer, WriteSession
from api.etags import version_of
from api.jsonbody import make_router
from api.schemas import NewComment, ReviewBody
from db.queries.pages import page_of_few
from inference.model import Page
from inference.review import comments, reviews
from inference.review.views import CommentView, MyReview, VerdictOnSample

router = make_router(tag="review", prefix="/samples/{sample_id}")

TagName = Annotated[str, Path(max_length=60)]
Version = Annotated[int | None, Depends(version_of)]
"""Of my review, where the caller names the one it saw."""


@router.put("/review")
def put_review(
    user: Reviewer,
    sample_id: BigId,
    body: ReviewBody,
    version: Version,
    session: WriteSession,
    audit: Audit,
    response: Response,
) -> MyReview:
    """My whole word on the current attempt; what is left out is taken away. `ETag` and `If-Match` are its version."""
    mine = reviews.put_review(
        session, sample_id, user.id, body.verdict, body.tags, body.note, version, attempt=body.attempt
    )
    audit("review.put", f"sample/{sample_id}", verdict=body.verdict, tags=body.tags)
    return _tagged(response, mine)


@router.get("/reviews")
def list_reviews(
    _: Reviewer, sample_id: BigId, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[VerdictOnSample]:
    """Everybody's word on the current attempt, by name."""
    items, following = page_of_few(reviews.list_reviews(session, sample_id), lambda word: (word.by,), after, limit)
    return Page(items=items, next=following)


@router.put("/tags/{tag:path}")
def set_tag(
    user: Reviewer,
    sample_id: BigId,
    tag: TagName,
    version: Version,
    session: WriteSession,
    audit: Audit,
    response: Response,
) -> MyReview:
    """Put one of my tags on."""
    mine = reviews.set_tag(session, sample_id, user.id, tag, version)
    audit("tag.set", f"sample/{sample_id}", tag=tag)
    return _tagged(response, mine)


@router.delete("/tags/{tag:path}")
def unset_tag(
    user: Reviewer,
    sample_id: BigId,
    tag: TagName,
    version: Version,
    session: WriteSession,
    audit: Audit,
    response: Response,
) -> MyReview:
    """Take one of my tags off."""
    mine = reviews.unset_tag(session, sample_id, user.id, tag, version)
    audit("tag.unset", f"sample/{sample_id}", tag=tag)
    return _tagged(response, mine)


@router.get("/comments")
def list_comments(
    _: Reviewer, sample_id: BigId, session: ReadSession, limit: Limit = PAGE, after: After = None
) -> Page[CommentView]:
    """Every remark, oldest first."""
    found = comments.list_comments(session, sample_id)
    items, following = page_of_few(found, lambda comment: (comment.id,), after, limit)
    return Page(items=items, next=following)


@router.post("/comments", status_code=201)
def add_comment(user: Reviewer, sample_id: BigId, body: NewComment, session: WriteSession, audit: Audit) -> CommentView:
    """A remark on the whole, or on a token range of the output."""
    comment = comments.add_comment(session, sample_id, user.id, body.body, body.start, body.end)
    audit("comment.add", f"sample/{sample_id}", comment=comment.id)
    return comment


def _tagged(response: Response, mine: MyReview) -> MyReview:
    response.headers["ETag"] = f'"{mine.version}"'
    return mine
