"""The run form: the format that fits with its reason, the checks that can be switched, what becomes of lost content."""

from typing import Any

import pytest

from inference.quality.flags import FLAG_CODES
from inference.runs.switches import is_switchable
from tests.web.reading import Element, check_page
from tests.web.site import Site, csrf_of
from web.forms import Fields
from web.launching import CHECKS_SHOWN, chosen_checks

SWITCHABLE = [code for code in FLAG_CODES if is_switchable(code)]
DEFAULTS = [code for code in SWITCHABLE if FLAG_CODES[code].default]


def ticked(page: Element) -> list[str]:
    return [str(box.attrs["value"]) for box in page.all("input", name="checks") if "checked" in box.attrs]


def filled(site: Site, csrf: str, **more: Any) -> dict[str, Any]:
    form = {"csrf": csrf, "name": "x", "prompt_set_id": str(site.set_id), "backend_ids": str(site.backend_id)}
    return {**form, CHECKS_SHOWN: "1", "checks": DEFAULTS, **more}


def rows(page: Element) -> dict[str, str]:
    return {row.all("td")[0].text: row.all("td")[1].text.strip() for row in page.all("tr") if row.all("td")}


def test_the_format_that_fits_is_named_with_its_reason(site: Site) -> None:
    with site.as_("operator") as client:
        page = check_page(client.get("/runs/new").text)
    (select,) = page.all("select", id="f-token_format")
    assert select.all("option")[0].attrs["value"] == ""
    assert "qwen3" in select.all("option")[0].text
    hints = [hint.text for hint in page.all("p", class_="hint")]
    assert any("<think>" in text and "single tokens" in text for text in hints)
    assert "/token-formats?tokenizer=tiny" in {link.attrs.get("href") for link in page.all("a")}


def test_a_tokenizer_that_lies_elsewhere_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(site.shop.ctx.tokenizers, "get", asked.append)
    with site.as_("operator") as client:
        form = filled(site, csrf_of(client), tokenizer="someone/big-model")
        page = check_page(client.post("/runs/edit", data=form).text)
    assert asked == []
    assert page.all("input", id="f-tokenizer")[0].attrs["value"] == "someone/big-model"


def test_every_check_that_can_be_switched_is_offered_as_declared(site: Site) -> None:
    with site.as_("operator") as client:
        page = check_page(client.get("/runs/new").text)
    assert sorted(str(box.attrs["value"]) for box in page.all("input", name="checks")) == sorted(SWITCHABLE)
    assert sorted(ticked(page)) == sorted(DEFAULTS)
    assert f"{len(DEFAULTS)} of {len(SWITCHABLE)} on" in page.text


def test_only_what_differs_from_the_defaults_is_asked_for() -> None:
    def form(*codes: str) -> Fields:
        return Fields(((CHECKS_SHOWN, "1"), *(("checks", code) for code in codes)))

    assert chosen_checks(form(*DEFAULTS)) == {}
    assert chosen_checks(form(*DEFAULTS, "retokenization_drift")) == {"retokenization_drift": True}
    assert chosen_checks(form(*(code for code in DEFAULTS if code != "truncated"))) == {"truncated": False}
    assert set(chosen_checks(form())) == set(DEFAULTS)
    assert chosen_checks(Fields()) == {}  # a form without the boxes says nothing of them


def test_switched_checks_reach_the_preview_the_run_and_the_form_again(own_site: Site) -> None:
    wanted = [code for code in DEFAULTS if code != "truncated"] + ["retokenization_drift"]
    with own_site.as_("operator") as client:
        form = filled(own_site, csrf_of(client), checks=wanted, render_faults="generate")
        page = check_page(client.post("/runs/new", data=form).text)
        assert rows(page)["checks_off"] == "truncated"
        assert rows(page)["render_faults"] == "generate"
        again = check_page(client.post("/runs/edit", data=form).text)
        assert sorted(ticked(again)) == sorted(wanted)
        launched = client.post("/runs", data=form)
        assert launched.status_code == 303
        settings = client.get(f"/api/v1{launched.headers['location']}").json()["settings"]
        assert settings["checks_off"] == ["truncated"]
        assert settings["render_faults"] == "generate"
        shown = check_page(client.get(launched.headers["location"]).text)
        assert "/flags#truncated" in {link.attrs.get("href") for link in shown.all("a")}


def test_roles_are_taken_as_json_and_a_fault_is_told_at_their_field(site: Site) -> None:
    with site.as_("operator") as client:
        form = filled(site, csrf_of(client), role_map='{"developer": "system"}')
        assert "developer" in rows(check_page(client.post("/runs/new", data=form).text))["role_map"]
        for wrong in ('["x"]', '{"a": 3}', '{"a": ""}'):
            answer = client.post("/runs/new", data={**form, "role_map": wrong})
            assert answer.status_code == 422
            assert check_page(answer.text).all("input", id="f-role_map")[0].attrs["aria-invalid"] == "true"


def test_what_was_not_touched_is_left_to_the_defaults(site: Site) -> None:
    with site.as_("operator") as client:
        page = check_page(client.post("/runs/new", data=filled(site, csrf_of(client))).text)
    command = page.all("pre", id="curl")[0].text
    assert "checks" not in command
    assert "render_faults" not in command


@pytest.mark.parametrize("code", ["no_such_<b>", "content_lost"])
def test_a_check_that_cannot_be_switched_is_named_beside_the_boxes(site: Site, code: str) -> None:
    with site.as_("operator") as client:
        answer = client.post("/runs/new", data=filled(site, csrf_of(client), checks=[*DEFAULTS, code]))
    assert answer.status_code == 422
    (box,) = check_page(answer.text).all("fieldset", class_="checks")
    assert code in box.all("p", class_="wrong")[0].text
