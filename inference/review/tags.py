"""The words people tag with, each with a number key that never changes."""

import unicodedata
from typing import Final

from sqlmodel import Session, col, select

from db.errors import Conflict, Invalid
from db.tables import Tag
from inference.review.views import TagView

MAX_NAME: Final = 60
MAX_KEY: Final = 10
RESERVED: Final = frozenset({"none"})
"""Words that mean something else in a filter."""


def list_tags(s: Session) -> list[TagView]:
    """All tags, those with a number key first, in its order."""
    order = (col(Tag.key).is_(None), col(Tag.key), col(Tag.name))
    return [_view(tag) for tag in s.exec(select(Tag).order_by(*order)).all()]


def create_tag(s: Session, name: str, key: int | None, user_id: int | None) -> TagView:
    """A new tag. Without a key it gets the lowest free number, or none when all ten are taken.

    Raises:
        Invalid: `tag_name_invalid`, `tag_key_invalid`.
        Conflict: `tag_exists`, `tag_key_taken`.
    """
    clean = name.strip()
    if not clean or len(clean) > MAX_NAME or any(unicodedata.category(char).startswith("C") for char in clean):
        raise Invalid("tag_name_invalid", f"A tag's name has 1 to {MAX_NAME} visible characters.", field="name")
    if clean.casefold() in RESERVED:
        raise Invalid("tag_name_invalid", f"{clean!r} means “has none” in a filter: choose another name.", field="name")
    if key is not None and not 1 <= key <= MAX_KEY:
        raise Invalid("tag_key_invalid", f"A tag's key is 1 to {MAX_KEY} (10 is the key 0), not {key}.", field="key")
    tags = s.exec(select(Tag)).all()
    if any(tag.name.casefold() == clean.casefold() for tag in tags):
        raise Conflict("tag_exists", f"There is a tag {clean!r} already.", field="name")
    taken = {tag.key: tag.name for tag in tags if tag.key is not None}
    if key is not None and key in taken:
        raise Conflict("tag_key_taken", f"Key {key % 10} is {taken[key]!r} already.", field="key")
    if key is None:
        key = next((number for number in range(1, MAX_KEY + 1) if number not in taken), None)
    tag = Tag(name=clean, key=key, created_by=user_id)
    s.add(tag)
    s.flush()
    return _view(tag)


def _view(tag: Tag) -> TagView:
    assert tag.id is not None  # noqa: S101  (read from the database, or flushed)
    return TagView(id=tag.id, name=tag.name, key=tag.key)
