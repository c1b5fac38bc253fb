"""The words that people tag with."""

from api.deps import PAGE, After, Audit, Limit, ReadSession, Reviewer, WriteSession
from api.jsonbody import make_router
from api.schemas import NewTag
from db.queries.pages import page_of_few
from inference.model import Page
from inference.review import tags
from inference.review.views import TagView

router = make_router(tag="review", prefix="/tags")


@router.get("")
def list_tags(_: Reviewer, session: ReadSession, limit: Limit = PAGE, after: After = None) -> Page[TagView]:
    """All tags, those with a number key first."""
    found = tags.list_tags(session)
    items, following = page_of_few(found, lambda tag: (tag.key or tags.MAX_KEY + 1, tag.name), after, limit)
    return Page(items=items, next=following)


@router.post("", status_code=201)
def create_tag(user: Reviewer, body: NewTag, session: WriteSession, audit: Audit) -> TagView:
    """A new tag; without `key` it gets the lowest free number."""
    tag = tags.create_tag(session, body.name, body.key, user.id)
    audit("tag.create", f"tag/{tag.id}", name=tag.name)
    return tag
