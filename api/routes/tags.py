"""The words that people tag with."""

from api.deps import Audit, ReadSession, Reviewer, WriteSession
from api.jsonbody import make_router
from api.schemas import NewTag
from inference.model import Page
from inference.review import tags
from inference.review.views import TagView

router = make_router(tag="review", prefix="/tags")


@router.get("")
def list_tags(_: Reviewer, session: ReadSession) -> Page[TagView]:
    """All tags, those with a number key first."""
    return Page(items=tags.list_tags(session))


@router.post("", status_code=201)
def create_tag(user: Reviewer, body: NewTag, session: WriteSession, audit: Audit) -> TagView:
    """A new tag; without `key` it gets the lowest free number."""
    tag = tags.create_tag(session, body.name, body.key, user.id)
    audit("tag.create", f"tag/{tag.id}", name=tag.name)
    return tag
