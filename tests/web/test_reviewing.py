"""Judging a sample without script: what is said is saved or said not to be, once, on the answer that was looked at."""

import pytest
from fastapi.testclient import TestClient

from db.filters import parse_body
from inference.runs.control import regenerate
from tests.support.fake_sglang import FakeSglang
from tests.web.reading import Element, check_page, read
from tests.web.site import Site, csrf_of

JSON = {"accept": "application/json"}


def form_of(client: TestClient, path: str) -> tuple[str, dict[str, str | list[str]]]:
    """The review form as a browser would send it untouched."""
    page = read(client.get(path).text)
    (form,) = page.all("form", id="review")
    data: dict[str, str | list[str]] = {
        str(field.attrs["name"]): str(field.attrs.get("value") or "") for field in form.all("input", type="hidden")
    }
    data["verdict"] = next(
        str(radio.attrs.get("value") or "") for radio in form.all("input", type="radio") if "checked" in radio.attrs
    )
    data["tags"] = [str(box.attrs["value"]) for box in form.all("input", type="checkbox") if "checked" in box.attrs]
    data["note"] = form.all("textarea")[0].text.removeprefix("\n")
    return str(form.attrs["action"]), data


def stored(client: TestClient, site: Site, number: int) -> dict[str, object]:
    review: dict[str, object] = client.get(f"/api/v1{site.sample(number)}").json()["my_review"] or {}
    return review


def test_save_and_next_saves_and_leads_to_the_next_of_the_filter(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        action, data = form_of(client, f"{own_site.sample(0)}?category=facts&view=seg")
        answer = client.post(
            action, data={**data, "verdict": "good", "tags": ["loop", "<i>odd</i>"], "note": "a\r\nb", "then": "next"}
        )
        assert answer.status_code == 303
        assert answer.headers["location"] == f"{own_site.sample(2)}?category=facts&view=seg"
        review = stored(client, own_site, 0)
        assert (review["verdict"], sorted(review["tags"]), review["note"]) == ("good", ["<i>odd</i>", "loop"], "a\nb")  # type: ignore[arg-type]  # JSON
        again = form_of(client, own_site.sample(0))[1]
        assert (again["verdict"], again["note"]) == ("good", "a\nb")


def test_judging_a_sample_out_of_its_filter_still_leads_on(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        seen, target = [], f"{own_site.sample(0)}?verdict=none"
        while "end=1" not in target:
            seen.append(target.partition("?")[0])
            action, data = form_of(client, target)
            target = client.post(action, data={**data, "verdict": "bad", "then": "next"}).headers["location"]
        assert seen == [own_site.sample(number) for number in range(10)]
        assert "last sample" in check_page(client.get(target).text).text


def test_double_submit_is_harmless(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        action, data = form_of(client, own_site.sample(0))
        data |= {"verdict": "good", "then": "stay"}
        first, second = client.post(action, data=data), client.post(action, data=data)
        assert first.status_code == 303
        assert second.status_code in {303, 412}
        assert stored(client, own_site, 0)["verdict"] == "good"
        assert len(client.get(f"/api/v1{own_site.sample(0)}/reviews").json()["items"]) == 1


def test_an_old_tab_overwrites_nothing_and_keeps_what_was_typed(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        action, old_tab = form_of(client, own_site.sample(0))
        client.post(action, data={**old_tab, "verdict": "good", "note": "from the first tab"})
        answer = client.post(action, data={**old_tab, "verdict": "bad", "note": "typed in the second", "then": "next"})
        assert answer.status_code == 412
        page = check_page(answer.text)
        alert = next(element for element in page.all("div") if element.attrs.get("role") == "alert")
        assert "NOT SAVED" in alert.text
        assert "good" in alert.text
        assert page.all("textarea", id="note")[0].text.strip() == "typed in the second"
        assert stored(client, own_site, 0)["note"] == "from the first tab"
        data = _fields(page)
        assert client.post(action, data={**data, "verdict": "bad", "note": "typed in the second"}).status_code == 303
        assert stored(client, own_site, 0)["note"] == "typed in the second"


def _fields(page: Element) -> dict[str, str]:
    (form,) = page.all("form", id="review")
    return {str(field.attrs["name"]): str(field.attrs["value"]) for field in form.all("input", type="hidden")}


def test_a_verdict_never_lands_on_an_answer_that_was_not_looked_at(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        action, data = form_of(client, own_site.sample(0))
        shop = own_site.shop
        with FakeSglang() as fake:
            shop.set_backend(own_site.backend_id, url=fake.url)
            with shop.ctx.db.write() as session:
                regenerate(session, shop.ctx, own_site.run_id, parse_body({"source_id": ["q0"]}))
            shop.work(own_site.run_id)
        answer = client.post(action, data={**data, "verdict": "good"})
        assert answer.status_code == 409
        assert "attempt 2" in answer.text
        assert stored(client, own_site, 0) == {}
        old = check_page(client.get(f"{own_site.sample(0)}?attempt=1").text)
        assert not old.all("form", id="review")
        assert "older attempt" in old.text
        assert client.get(own_site.sample(0)).status_code == 200


def test_script_gets_the_review_as_saved_and_problems_as_problems(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        action, data = form_of(client, own_site.sample(0))
        saved = client.post(action, data={**data, "verdict": "unsure"}, headers=JSON)
        assert saved.status_code == 200
        assert saved.json()["verdict"] == "unsure"
        refused = client.post(action, data={**data, "verdict": "good"}, headers=JSON)
        assert refused.status_code == 412
        assert refused.json()["code"] == "review_changed"
        unknown = client.post(
            action, data={**data, "version": str(saved.json()["version"]), "tags": ["no such tag"]}, headers=JSON
        )
        assert unknown.status_code == 422
        assert "no such tag" in unknown.json()["detail"]


@pytest.mark.parametrize("wrong", [{"csrf": "wrong"}, {"csrf": ""}])
def test_without_the_sessions_token_nothing_is_saved(own_site: Site, wrong: dict[str, str]) -> None:
    with own_site.as_("reviewer") as client:
        action, data = form_of(client, own_site.sample(0))
        answer = client.post(action, data={**data, **wrong, "verdict": "bad"})
        assert answer.status_code == 403
        assert stored(client, own_site, 0) == {}


def test_others_see_what_i_said_and_have_their_own_word(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        action, data = form_of(client, own_site.sample(0))
        client.post(action, data={**data, "verdict": "bad", "tags": ["loop"], "note": "<b>mine</b>"})
    with own_site.as_("second") as client:
        page = check_page(client.get(own_site.sample(0)).text)
        others = next(section for section in page.all("section") if section.attrs.get("aria-labelledby") == "h-others")
        assert own_site.people["reviewer"].name in others.text
        assert "<b>mine</b>" in others.text
        assert form_of(client, own_site.sample(0))[1]["verdict"] == ""


def test_comments_and_tags_go_back_to_where_they_were_made(own_site: Site) -> None:
    with own_site.as_("reviewer") as client:
        csrf = csrf_of(client)
        answer = client.post(
            f"{own_site.sample(0)}/comments?category=facts",
            data={"csrf": csrf, "body": "odd <i>", "start": "1", "end": "3"},
        )
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == f"{own_site.sample(0)}?category=facts"
        page = check_page(client.get(answer.headers["location"]).text)
        assert "odd <i>" in page.text
        assert [link.attrs["href"] for link in page.all("a") if link.attrs.get("data-range") == "1-3"] == ["#t1"]
        bad = client.post(
            f"{own_site.sample(0)}/comments", data={"csrf": csrf, "body": "x", "start": "three", "end": "4"}
        )
        assert bad.status_code == 422
        assert "whole number" in bad.text
        made = client.post(f"/tags?next={own_site.sample(0)}", data={"csrf": csrf, "name": "brand new"})
        assert made.headers["location"] == own_site.sample(0)
        assert "brand new" in client.get(own_site.sample(0)).text
        for number, target in enumerate(("//evil.example", "https://evil.example", "/\\evil.example")):
            name = f"tag {number}"
            assert (
                client.post("/tags", params={"next": target}, data={"csrf": csrf, "name": name}).headers["location"]
                == "/"
            )
