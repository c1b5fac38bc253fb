"""A server's page in a real browser: readable by everybody in every state, renewed by itself, and never in the way."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from db.tables import Backend
from tests.support.browser import served
from tests.web.fleet import seed_fleet
from tests.web.site import Site, open_site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, dict[str, int], str]]:
    with open_site(tmp_path_factory.mktemp("fleet")) as site:
        with site.shop.ctx.db.write() as session:
            numbers = seed_fleet(session)
        with served(site.app) as url:
            yield site, numbers, url


def log_in(context: BrowserContext, site: Site, url: str, role: str = "operator") -> Page:
    page = context.new_page()
    page.goto(f"{url}/login")
    page.get_by_label("Token").fill(site.people[role].token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{url}/")
    return page


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1280, "dark")])
def test_every_state_is_readable_by_everybody(
    fleet: tuple[Site, dict[str, int], str], browser: Browser, width: int, scheme: str
) -> None:
    site, numbers, url = fleet
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        page = log_in(context, site, url)
        for path in ("/", "/backends", *(f"/backends/{number}" for number in numbers.values())):
            page.goto(f"{url}{path}")
            found = [
                (item["id"], node["target"])
                for item in Axe().run(page).response["violations"]
                for node in item["nodes"]
            ]
            assert found == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
            assert page.title() != "owned"


def change(site: Site, number: int, **columns: object) -> None:
    with site.shop.ctx.db.write() as session:
        backend = session.get(Backend, number)
        assert backend is not None
        for name, value in columns.items():
            setattr(backend, name, value)


def test_the_page_follows_the_server_without_taking_the_readers_place(
    fleet: tuple[Site, dict[str, int], str], browser: Browser
) -> None:
    site, numbers, url = fleet
    with browser.new_context() as context:
        page = log_in(context, site, url)
        page.goto(f"{url}/backends/{numbers['follower']}")
        page.locator(".started summary").click()
        expect(page.locator(".stages")).to_be_visible()
        page.get_by_role("button", name="Restart").focus()
        change(site, numbers["follower"], message="Ready and busy with something new.")
        expect(page.locator(".sentence")).to_have_text("Ready and busy with something new.", timeout=20_000)
        expect(page.locator(".stages")).to_be_visible()
        expect(page.get_by_role("button", name="Restart")).to_be_focused()


def test_text_that_a_reader_marked_stays_until_they_are_done(
    fleet: tuple[Site, dict[str, int], str], browser: Browser
) -> None:
    site, numbers, url = fleet
    with browser.new_context() as context:
        page = log_in(context, site, url)
        page.goto(f"{url}/backends/{numbers['unknown']}")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('.sentence'))")
        before = page.evaluate("getSelection().toString()")
        change(site, numbers["unknown"], message="Seen again.")
        with page.expect_response(re.compile("part=standing")):
            pass
        with page.expect_response(
            re.compile("part=standing")
        ):  # the first was drawn, or not, before the second is asked for
            pass
        assert page.evaluate("getSelection().toString()") == before
        page.evaluate("getSelection().removeAllRanges()")
        expect(page.locator(".sentence")).to_have_text("Seen again.", timeout=20_000)


def test_the_command_is_copied_as_it_stands_also_after_it_was_drawn_again(
    fleet: tuple[Site, dict[str, int], str], browser: Browser
) -> None:
    site, numbers, url = fleet
    with browser.new_context() as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
        page = log_in(context, site, url)
        page.goto(f"{url}/backends/{numbers['loading']}")
        with page.expect_response(re.compile("part=past"), timeout=60_000):
            pass
        page.locator("#live-past").get_by_role("button", name="Copy").click()
        expect(page.locator("#live-past").get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == page.locator("#command").text_content()


def test_a_stop_asks_first_and_does_nothing_where_it_is_denied(
    fleet: tuple[Site, dict[str, int], str], browser: Browser
) -> None:
    site, numbers, url = fleet
    with browser.new_context() as context:
        page = log_in(context, site, url)
        page.goto(f"{url}/backends/{numbers['ready']}")
        asked = []
        page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        page.get_by_role("button", name="Stop", exact=True).click()
        assert asked == ["Stop ready? Requests in flight may finish for up to 30 s."]
        with site.shop.ctx.db.read() as session:
            backend = session.get(Backend, numbers["ready"])
            assert backend is not None
            assert backend.desired_state == "running"


def test_without_script_everything_is_there(fleet: tuple[Site, dict[str, int], str], browser: Browser) -> None:
    site, numbers, url = fleet
    with browser.new_context(java_script_enabled=False) as context:
        page = log_in(context, site, url)
        page.goto(f"{url}/backends/{numbers['ready']}")
        expect(page.get_by_role("img", name=re.compile("^Tokens a second over the last 15 minutes"))).to_be_visible()
        page.get_by_role("link", name="1 h", exact=True).click()
        expect(page.get_by_role("img", name=re.compile("^Tokens a second over the last 60 minutes"))).to_be_visible()
        expect(page.locator("#command")).to_contain_text("--model-path")
