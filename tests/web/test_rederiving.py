"""The run page behind a run: how far the checks are, and segmenting and checking again with what that changed."""

from datetime import UTC, datetime

from inference.runs.views import RederivationView
from tests.web.reading import Element, check_page, read
from tests.web.site import Site, csrf_of
from web.runs import rederived


def run_page(site: Site, role: str = "operator") -> Element:
    with site.as_(role) as client:
        return check_page(client.get(f"/runs/{site.run_id}").text)


def ask(site: Site, token_format: str = "") -> int:
    with site.as_("operator") as client:
        data = {"csrf": csrf_of(client), "token_format": token_format}
        return client.post(f"/runs/{site.run_id}/rederive", data=data).status_code


def changes(page: Element) -> dict[str, tuple[str, ...]]:
    (part,) = page.all("div", id="live-rederived")
    cells = [[cell.text for cell in row.all("td")] for row in part.all("tr")]
    return {row[0]: tuple(row[1:]) for row in cells if row}


def test_how_far_the_checks_are_is_told_until_they_are_done(own_site: Site) -> None:
    before = run_page(own_site).all("dl", class_="facts")[0].text
    assert "checked0 of 10; flags are still to come" in before
    own_site.shop.catch_up()
    assert "checked" not in run_page(own_site).all("dl", class_="facts")[0].text


def test_a_run_at_rest_is_segmented_and_checked_again_with_what_that_changed(own_site: Site) -> None:
    own_site.shop.catch_up()
    assert run_page(own_site).all("form", action=f"/runs/{own_site.run_id}/rederive")
    assert ask(own_site, "none") == 303
    page = run_page(own_site)
    (part,) = page.all("div", id="live-rederived")
    assert "queued" in part.text
    assert not page.all("form", action=f"/runs/{own_site.run_id}/rederive")
    own_site.shop.catch_up()
    page = run_page(own_site)
    found = changes(page)
    assert found["tool json invalid"] == ("2", "0", "−2")
    assert found["reasoning unclosed"] == ("2", "0", "−2")
    (part,) = page.all("div", id="live-rederived")
    assert "read as none" in " ".join(part.text.split())
    link = next(link for link in part.all("a") if link.text == "tool json invalid")
    assert link.attrs["href"] == f"/runs/{own_site.run_id}/samples?flag=tool_json_invalid"
    (choice,) = page.all("select", id="f-token_format")
    assert choice.all("option")[0].text == "as now: none"


def test_asking_twice_or_for_a_format_that_does_not_fit_says_why(own_site: Site) -> None:
    own_site.shop.catch_up()
    assert ask(own_site, "kimi_k2") == 422
    assert ask(own_site) == 303
    assert ask(own_site) == 409


def test_reviewers_see_what_changed_and_no_button(own_site: Site) -> None:
    own_site.shop.catch_up()
    assert not run_page(own_site, "reviewer").all("section", **{"aria-labelledby": "h-rederive"})
    ask(own_site, "none")
    own_site.shop.catch_up()
    page = run_page(own_site, "reviewer")
    assert changes(page)
    assert not page.all("form", action=f"/runs/{own_site.run_id}/rederive")
    with own_site.as_("reviewer") as client:
        assert client.post(f"/runs/{own_site.run_id}/rederive", data={"csrf": csrf_of(client)}).status_code == 403


def test_the_part_that_moves_is_drawn_alone(own_site: Site) -> None:
    ask(own_site)
    with own_site.as_("operator") as client:
        fragment = client.get(f"/runs/{own_site.run_id}?part=rederived")
    assert "<html" not in fragment.text
    assert "queued" in read(fragment.text).text


def test_the_greatest_changes_come_first_and_what_stayed_is_apart() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    job = RederivationView(
        state="done",
        token_format=None,
        done=4,
        total=4,
        before={"a": 1, "b": 5, "c": 2},
        after={"b": 1, "c": 2, "d": 2},
        error="",
        created_at=moment,
        started_at=moment,
        finished_at=moment,
    )
    found = rederived(job)
    assert found is not None
    assert [(row.code, row.change) for row in found.changed] == [("b", -4), ("d", 2), ("a", -1)]
    assert [row.code for row in found.kept] == ["c"]
    running = rederived(job.model_copy(update={"state": "running", "done": 1}))
    assert running is not None
    assert (running.changed, running.kept, running.bar[0].width) == ((), (), 25.0)
    assert rederived(None) is None
