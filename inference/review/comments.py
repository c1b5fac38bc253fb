"""Remarks on a sample, or on a token range of its output."""

from typing import Final

from sqlmodel import Session, col, select

from db.errors import Invalid
from db.tables import Comment, User
from inference.review.judged import get_sample
from inference.review.views import CommentView

MAX_BODY: Final = 10_000


def list_comments(s: Session, sample_id: int) -> list[CommentView]:
    """All remarks on the sample's current attempt and on the sample as a whole, oldest first.

    Raises:
        NotFound: no such sample.
    """
    sample = get_sample(s, sample_id)
    rows = s.exec(
        select(Comment, User.name)
        .join(User, col(User.id) == col(Comment.user_id), isouter=True)
        .where(col(Comment.sample_id) == sample_id)
        .where((col(Comment.attempt) == sample.attempt) | col(Comment.start).is_(None))
        .order_by(col(Comment.id))
    ).all()
    return [_view(comment, name) for comment, name in rows]


def add_comment(
    s: Session, sample_id: int, user_id: int, body: str, start: int | None = None, end: int | None = None
) -> CommentView:
    """Add a remark; `start` and `end` are a half-open range of output ids, both or neither.

    Raises:
        NotFound: no such sample.
        Invalid: `comment_empty`, `comment_too_long`, `range_invalid`.
    """
    sample = get_sample(s, sample_id)
    text = body.strip()
    if not text:
        raise Invalid("comment_empty", "A comment needs a text.", field="body")
    if len(text) > MAX_BODY:
        raise Invalid("comment_too_long", f"A comment has at most {MAX_BODY:,} characters.", field="body")
    length = sample.completion_tokens or 0
    if (start is None) != (end is None):
        raise Invalid("range_invalid", "Give both start and end, or neither.", field="end" if end is None else "start")
    if start is not None and end is not None and not 0 <= start < end <= length:
        raise Invalid(
            "range_invalid", f"[{start}, {end}) is no range of this answer's {length:,} tokens.", field="start"
        )
    comment = Comment(sample_id=sample_id, attempt=sample.attempt, user_id=user_id, start=start, end=end, body=text)
    s.add(comment)
    s.flush()
    user = s.get(User, user_id)
    return _view(comment, None if user is None else user.name)


def _view(comment: Comment, name: str | None) -> CommentView:
    assert comment.id is not None  # noqa: S101  (read from the database, or flushed)
    return CommentView(
        id=comment.id,
        by=name or "someone who left",
        start=comment.start,
        end=comment.end,
        body=comment.body,
        created_at=comment.created_at,
    )
