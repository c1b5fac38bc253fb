"""A site for all tests of pages that only look, one of its own for those that change something, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser import open_browser
from tests.web.site import Site, open_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Shared: nobody changes anything in it."""
    with open_site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    """This test's own."""
    with open_site(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium a module: its driver keeps an event loop running in this thread, where no other test may find it."""
    with open_browser() as made:
        yield made
