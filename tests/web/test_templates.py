"""Templates and static files keep to the content security policy: nothing inline, nothing from elsewhere, no form without its token."""

import re
from pathlib import Path

import pytest

from web import assets
from web.shell import templates

FOLDER = Path(assets.FOLDER).parent / "templates"
TEMPLATES = sorted(FOLDER.glob("*.html"))
STATIC = sorted(path for path in assets.FOLDER.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_template_has_nothing_inline_and_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>", text)
    assert "<style" not in text
    assert not re.search(r"\sstyle\s*=", text)
    assert not re.search(r"\son[a-z]+\s*=", text)
    assert not re.search(r"""(?:src|href|action)\s*=\s*["']?(?:https?:)?//""", text)
    assert "| safe" not in text
    assert "autoescape false" not in text


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_posting_form_carries_the_csrf_token(path: Path) -> None:
    for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", path.read_text(), flags=re.DOTALL):
        if 'action="/login"' not in form:  # nobody is logged in there
            assert "csrf" in form, form[:120]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_template_compiles(path: Path) -> None:
    assert templates.get_template(path.name).name == path.name


@pytest.mark.parametrize("path", STATIC, ids=lambda path: path.name)
def test_static_file_refers_to_nothing_elsewhere(path: Path) -> None:
    found = re.findall(r"https?://[^\s\"')]+", path.read_text())
    assert set(found) <= {"http://www.w3.org/2000/svg"}


def test_first_load_is_small() -> None:
    packed = sum(len(file.packed or file.plain) for file in assets._FILES.values())
    assert packed < 60_000


def test_a_template_that_names_a_missing_file_fails_at_once() -> None:
    with pytest.raises(KeyError):
        assets.asset("no-such-file.css")


def test_modules_import_only_what_is_there() -> None:
    for path in assets.FOLDER.glob("*.js"):
        for name in re.findall(r"from \"\./([^\"]+)\"", path.read_text()):
            assert (assets.FOLDER / name).is_file(), (path.name, name)
