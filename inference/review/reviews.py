"""What a person says about a sample: verdict, tags, note. One review per person and attempt; a new attempt starts unjudged."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete
from sqlmodel import Session, col, select

from db.errors import Conflict, Invalid, PreconditionFailed
from db.queries.samples import reviews_of
from db.tables import Review, Sample, SampleTag, Tag
from db.types import now
from inference.review.comments import add_comment, list_comments
from inference.review.judged import get_judged, get_sample
from inference.review.tags import create_tag, list_tags
from inference.review.views import MyReview, VerdictOnSample

__all__ = [
    "add_comment",
    "create_tag",
    "list_comments",
    "list_reviews",
    "list_tags",
    "my_review",
    "put_review",
    "set_tag",
    "unset_tag",
]

VERDICTS: Final = ("good", "bad", "unsure")
MAX_NOTE: Final = 10_000
_NOTHING: Final = MyReview(verdict=None, tags=[], note="", version=0, updated_at=None)


def put_review(
    s: Session,
    sample_id: int,
    user_id: int,
    verdict: str | None,
    tags: Sequence[str],
    note: str,
    if_match: int | None = None,
    *,
    attempt: int | None = None,
) -> MyReview:
    """Say all of it at once: what is not in `tags` is taken off. No verdict, no tags and no note takes the review away.

    Args:
        s: a write session.
        sample_id: the sample; its current attempt is judged.
        user_id: whose word it is.
        verdict: good, bad, unsure or None.
        tags: names of existing tags.
        note: free text, at most 10,000 characters.
        if_match: the version that the caller saw (0 = none yet).
        attempt: the attempt that the caller looked at; None judges the current one unseen.

    Raises:
        NotFound: no such sample.
        Invalid: `verdict_unknown`, `tag_unknown` (naming it and those there are), `note_too_long`.
        Conflict: `nothing_to_review`, the sample has no attempt now; `attempt_changed`, it is not the one looked at.
        PreconditionFailed: `review_changed`.
    """
    sample = get_judged(s, sample_id)
    if attempt is not None and attempt != sample.attempt:
        raise Conflict(
            "attempt_changed",
            f"This sample was made again meanwhile: you looked at attempt {attempt}, now there is attempt "
            f"{sample.attempt}. Look at it, then judge.",
        )
    if verdict is not None and verdict not in VERDICTS:
        raise Invalid(
            "verdict_unknown", f"A verdict is one of {', '.join(VERDICTS)} or null, not {verdict!r}.", field="verdict"
        )
    if len(note) > MAX_NOTE:
        raise Invalid("note_too_long", f"A note has at most {MAX_NOTE:,} characters, not {len(note):,}.", field="note")
    wanted = find_tags(s, tags, field="tags")
    review = _mine(s, sample, user_id)
    _check_version(review, if_match)
    _set_tags(s, sample, user_id, {tag.id for tag in wanted if tag.id is not None})
    if verdict is None and not wanted and not note.strip():
        if review is not None:
            s.delete(review)
            s.flush()
        return _NOTHING
    _save(s, sample, user_id, review, verdict, note.strip())
    return my_review(s, sample, user_id) or _NOTHING


def my_review(s: Session, sample: Sample, user_id: int) -> MyReview | None:
    """What this person said about the current attempt; None where nothing."""
    review = _mine(s, sample, user_id)
    if review is None:
        return None
    names = s.exec(
        select(Tag.name)
        .join(SampleTag, col(SampleTag.tag_id) == col(Tag.id))
        .where(
            col(SampleTag.sample_id) == sample.id,
            col(SampleTag.attempt) == sample.attempt,
            col(SampleTag.user_id) == user_id,
        )
        .order_by(col(Tag.key).is_(None), col(Tag.key), col(Tag.name))
    ).all()
    return MyReview(
        verdict=review.verdict,
        tags=list(names),
        note=review.note,
        version=review.version,
        updated_at=review.updated_at,
    )


def list_reviews(s: Session, sample_id: int) -> list[VerdictOnSample]:
    """Everybody's word on the current attempt.

    Raises:
        NotFound: no such sample.
    """
    sample = get_sample(s, sample_id)
    return [
        VerdictOnSample(by=name, verdict=review.verdict, note=review.note, updated_at=review.updated_at)
        for name, review in reviews_of(s, [sample]).get(sample_id, [])
    ]


def set_tag(s: Session, sample_id: int, user_id: int, tag: str, if_match: int | None = None) -> MyReview:
    """Put one of my tags on; nothing changes where it is on already.

    Raises:
        NotFound: no such sample.
        Invalid: `tag_unknown`.
        Conflict: `nothing_to_review`.
        PreconditionFailed: `review_changed`.
    """
    return _change_tag(s, sample_id, user_id, tag, if_match, on=True)


def unset_tag(s: Session, sample_id: int, user_id: int, tag: str, if_match: int | None = None) -> MyReview:
    """Take one of my tags off; nothing changes where it is not on.

    Raises:
        NotFound: no such sample.
        Invalid: `tag_unknown`.
        Conflict: `nothing_to_review`.
        PreconditionFailed: `review_changed`.
    """
    return _change_tag(s, sample_id, user_id, tag, if_match, on=False)


def find_tags(s: Session, names: Sequence[str], *, field: str) -> list[Tag]:
    """The tags of those names, each once.

    Raises:
        Invalid: `tag_unknown`, naming the first unknown one and those there are.
    """
    if not names:
        return []
    known = {tag.name: tag for tag in s.exec(select(Tag)).all()}
    for name in names:
        if name not in known:
            have = ", ".join(sorted(known)) or "none yet"
            raise Invalid("tag_unknown", f"There is no tag {name!r}; there are: {have}.", field=field)
    return [known[name] for name in dict.fromkeys(names)]


def _mine(s: Session, sample: Sample, user_id: int) -> Review | None:
    return s.get(Review, (sample.id, sample.attempt, user_id))


def _check_version(review: Review | None, if_match: int | None) -> None:
    current = 0 if review is None else review.version
    if if_match is not None and if_match != current:
        raise PreconditionFailed(
            "review_changed", f"Your review of this sample was changed elsewhere (version {current}, not {if_match})."
        )


def _save(s: Session, sample: Sample, user_id: int, review: Review | None, verdict: str | None, note: str) -> None:
    if review is None:
        assert sample.id is not None  # noqa: S101  (read from the database)
        review = Review(
            sample_id=sample.id,
            attempt=sample.attempt,
            user_id=user_id,
            run_id=sample.run_id,
            verdict=verdict,
            note=note,
        )
    else:
        review.verdict, review.note = verdict, note
        review.version += 1
        review.updated_at = now()
    s.add(review)
    s.flush()


def _set_tags(s: Session, sample: Sample, user_id: int, wanted: set[int]) -> None:
    assert sample.id is not None  # noqa: S101  (read from the database)
    mine = (
        col(SampleTag.sample_id) == sample.id,
        col(SampleTag.attempt) == sample.attempt,
        col(SampleTag.user_id) == user_id,
    )
    have = set(s.exec(select(SampleTag.tag_id).where(*mine)).all())
    if have - wanted:
        s.execute(delete(SampleTag).where(*mine, col(SampleTag.tag_id).in_(have - wanted)))
    for tag_id in sorted(wanted - have):
        s.add(
            SampleTag(sample_id=sample.id, attempt=sample.attempt, tag_id=tag_id, user_id=user_id, run_id=sample.run_id)
        )
    s.flush()


def _change_tag(s: Session, sample_id: int, user_id: int, name: str, if_match: int | None, *, on: bool) -> MyReview:
    sample = get_judged(s, sample_id)
    (tag,) = find_tags(s, [name], field="tag")
    _check_version(_mine(s, sample, user_id), if_match)
    before = my_review(s, sample, user_id) or _NOTHING
    if (tag.name in before.tags) == on:
        return before
    tags = [*before.tags, tag.name] if on else [other for other in before.tags if other != tag.name]
    return put_review(s, sample_id, user_id, before.verdict, tags, before.note)
