"""A page as a test reads it: elements with attributes and text, and what must hold for every page."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})


@dataclass
class Element:
    """One element: its attributes, its text, what is in it."""

    tag: str
    attrs: dict[str, str | None]
    children: list["Element | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag: str, **attrs: str) -> list["Element"]:
        """Every element below of that tag with those attribute values (`class_` for class names)."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if (tag in {"*", child.tag}) and child.has(attrs):
                    found.append(child)
                found += child.all(tag, **attrs)
        return found

    def has(self, attrs: dict[str, str]) -> bool:
        for name, value in attrs.items():
            own = self.attrs.get(name.rstrip("_"))
            if name == "class_":
                if value not in (own or "").split():
                    return False
            elif own != value:
                return False
        return True


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#", {})
        self.stack = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, dict(attrs))
        self.stack[-1].children.append(made)
        if made.attrs.get("data-u") == "U+0000":
            made.children.append("\0")
        if tag not in VOID:
            self.stack.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.stack[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack[-1].tag == tag, f"</{tag}> closes <{self.stack[-1].tag}>"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)


def read(html: str) -> Element:
    """The page; an unbalanced one is an AssertionError."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert len(builder.stack) == 1, [element.tag for element in builder.stack]
    return builder.root


def check_page(html: str) -> Element:
    """What holds for every page: balanced, nothing inline, nothing from elsewhere, every posting form with its token."""
    page = read(html)
    assert len(page.all("main")) == 1
    assert len(page.all("h1")) == 1
    assert page.all("title")[0].text.strip()
    ids = [element.attrs["id"] for element in page.all("*") if "id" in element.attrs]
    assert len(ids) == len(set(ids)), sorted(name for name in ids if ids.count(name) > 1)
    for element in page.all("*"):
        assert element.tag not in {"style", "iframe", "object", "embed", "base"}
        for name, value in element.attrs.items():
            assert name != "style"
            assert not name.startswith("on")
            if name in {"src", "href", "action", "formaction", "data-stream", "data-live"}:
                assert not re.match(r"(?i)\s*(?:[a-z][a-z0-9+.-]*:|//)", value or ""), (element.tag, value)
    for script in page.all("script"):
        assert (script.attrs.get("src") or "").startswith("/static/")
        assert not script.text
    for form in page.all("form", method="post"):
        if form.attrs.get("action") != "/login":
            assert form.all("input", name="csrf"), form.attrs
    for control in [*page.all("input"), *page.all("select"), *page.all("textarea")]:
        if control.attrs.get("type") != "hidden":
            named = control.attrs.get("id") and page.all("label", **{"for": str(control.attrs["id"])})
            assert named or control.attrs.get("type") in {"radio", "checkbox"} or control.attrs.get("aria-label"), (
                control.attrs
            )
    return page
