"""Forms that change things: bad input comes back beside its field with what was typed, good input leads on."""

import json
from pathlib import Path

import pytest

from tests.web.reading import check_page, read
from tests.web.site import BASE, Site, csrf_of


def test_a_wrong_model_path_is_named_at_its_field(site: Site) -> None:
    with site.as_("operator") as client:
        data = {
            "csrf": csrf_of(client),
            "kind": "managed",
            "name": "x",
            "launch.model_path": "/no/such",
            "launch.tp_size": "1",
        }
        answer = client.post("/backends/new", data=data)
    assert answer.status_code == 422
    page = check_page(answer.text)
    assert "/no/such" in page.all("div", id="problem")[0].text
    (field,) = page.all("input", id="f-launch.model_path")
    assert field.attrs["value"] == "/no/such"


def test_a_value_out_of_bounds_is_named_at_its_field(site: Site) -> None:
    with site.as_("operator") as client:
        data = {
            "csrf": csrf_of(client),
            "kind": "managed",
            "name": "x",
            "launch.model_path": "/m",
            "launch.tp_size": "many",
        }
        answer = client.post("/backends/new", data=data)
    assert answer.status_code == 422
    (field,) = check_page(answer.text).all("input", id="f-launch.tp_size")
    assert field.attrs["aria-invalid"] == "true"


def test_extra_flags_that_are_no_json_say_where(site: Site) -> None:
    with site.as_("operator") as client:
        data = {
            "csrf": csrf_of(client),
            "kind": "managed",
            "name": "x",
            "launch.model_path": "/m",
            "launch.extra_flags": '{"a": ',
        }
        answer = client.post("/backends/new", data=data)
    assert answer.status_code == 422
    assert "extra_flags is not JSON" in answer.text


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400"])
def test_a_number_that_json_cannot_say_is_named_at_its_field(site: Site, number: str) -> None:
    with site.as_("operator") as client:
        form = {"csrf": csrf_of(client), "name": "x", "prompt_set_id": "1", "backend_ids": str(site.backend_id)}
        answer = client.post("/runs", data={**form, "chat_template_kwargs": f'{{"a": {number}}}'})
    assert answer.status_code == 422
    assert "chat_template_kwargs is not JSON" in answer.text


def test_attach_start_and_delete_a_backend(own_site: Site) -> None:
    with own_site.as_("operator") as client:
        csrf = csrf_of(client)
        made = client.post(
            "/backends/new",
            data={"csrf": csrf, "kind": "attached", "name": "far <b>", "url": f"{BASE}:9", "api_key": "s3cret-key"},
        )
        assert made.status_code == 303
        page = client.get(made.headers["location"])
        check_page(page.text)
        assert "s3cret-key" not in page.text
        again = client.post(f"{made.headers['location']}/start", data={"csrf": csrf})
        assert again.status_code == 409
        assert "Possible now" in check_page(again.text).text
        assert client.post(f"{made.headers['location']}/explode", data={"csrf": csrf}).status_code == 422
        twice = client.post(
            "/backends/new", data={"csrf": csrf, "kind": "attached", "name": "far <b>", "url": f"{BASE}:9"}
        )
        assert twice.status_code == 409
        assert "far <b>" in check_page(twice.text).all("div", id="problem")[0].text


def test_upload_by_page_reports_bad_rows_by_line(own_site: Site) -> None:
    rows = [
        json.dumps({"id": "a", "prompt": "Hi <b>", "category": "c"}),
        "{not json",
        json.dumps({"messages": [{"content": "x"}]}),
    ]
    with own_site.as_("operator") as client:
        answer = client.post(
            "/prompt-sets",
            data={"csrf": csrf_of(client), "name": "mine <b>"},
            files={"file": ("p.jsonl", "\n".join(rows).encode(), "application/x-ndjson")},
        )
        assert answer.status_code == 303
        page = check_page(client.get(answer.headers["location"]).text)
        lines = [row.all("td")[0].text for row in page.all("tr") if row.all("span", class_="error")]
        assert lines == ["2", "3"]
        assert "mine <b>" in page.all("h1")[0].text
        gone = client.post(f"{answer.headers['location']}/delete", data={"csrf": csrf_of(client)})
        assert gone.headers["location"] == "/prompt-sets"


def test_upload_without_a_file_or_token_is_refused_in_words(site: Site) -> None:
    with site.as_("operator") as client:
        empty = client.post("/prompt-sets", data={"csrf": csrf_of(client), "name": "x"}, files={"file": ("", b"")})
        assert empty.status_code == 422
        check_page(empty.text)
        unmeant = client.post("/prompt-sets", data={"name": "x"}, files={"file": ("p.jsonl", b"{}")})
        assert unmeant.status_code == 403


def test_a_run_is_previewed_with_sources_then_launched(own_site: Site) -> None:
    with own_site.as_("operator") as client:
        form = {
            "csrf": csrf_of(client),
            "name": "second <b>",
            "prompt_set_id": str(own_site.set_id),
            "backend_ids": [str(own_site.backend_id)],
            "sampling.temperature": "0.25",
            "categories": "facts",
            "repeats": "2",
        }
        before = client.get("/api/v1/runs").json()["items"]
        preview = client.post("/runs/new", data=form)
        assert preview.status_code == 200
        page = check_page(preview.text)
        rows = {
            row.all("td")[0].text: [cell.text for cell in row.all("td")[1:]] for row in page.all("tr") if row.all("td")
        }
        assert any("0.25" in cells[0] for name, cells in rows.items() if "temperature" in name)
        assert all(cells[1].strip() for cells in rows.values())
        assert client.get("/api/v1/runs").json()["items"] == before
        fields: dict[str, list[str]] = {}
        (launch,) = page.all("form", action="/runs")
        for field in launch.all("input"):
            fields.setdefault(str(field.attrs["name"]), []).append(str(field.attrs["value"]))
        launched = client.post("/runs", data=fields)
        assert launched.status_code == 303
        run = client.get(f"/api/v1{launched.headers['location']}").json()
        assert run["name"] == "second <b>"
        assert run["settings"]["sampling"]["temperature"] == 0.25
        edited = check_page(client.post("/runs/edit", data=fields).text)
        assert edited.all("input", id="f-sampling.temperature")[0].attrs["value"] == "0.25"
        assert client.post(f"{launched.headers['location']}/cancel", data={"csrf": csrf_of(client)}).status_code == 303


def test_a_run_that_cannot_be_says_why_at_its_field(site: Site) -> None:
    with site.as_("operator") as client:
        form = {"csrf": csrf_of(client), "name": "x", "prompt_set_id": str(site.set_id), "sampling.temperature": "-1"}
        answer = client.post("/runs/new", data=form)
    assert answer.status_code == 422
    page = check_page(answer.text)
    assert page.all("input", id="f-sampling.temperature")[0].attrs["aria-invalid"] == "true"
    assert page.all("div", id="problem")


def test_regenerate_needs_to_be_told_which_samples(own_site: Site) -> None:
    path = f"/runs/{own_site.run_id}/regenerate"
    with own_site.as_("operator") as client:
        csrf = csrf_of(client)
        empty = client.post(path, data={"csrf": csrf})
        assert empty.status_code == 422
        assert "Say which samples" in empty.text
        twice = client.post(path, data={"csrf": csrf, "category": "facts", "filter": "category=x"})
        assert twice.status_code == 422
        done = client.post(path, data={"csrf": csrf, "category": "a <b>,&", "filter": "len=1.."})
        assert done.status_code == 303
        states = [sample.state for sample in own_site.shop.samples(own_site.run_id)]
        assert states.count("pending") == 5


def test_export_is_asked_for_and_a_wrong_format_is_said(own_site: Site) -> None:
    path = f"/runs/{own_site.run_id}/exports"
    with own_site.as_("operator") as client:
        csrf = csrf_of(client)
        page = read(client.get(f"/runs/{own_site.run_id}").text)
        (choice,) = page.all("select", id="f-format")
        name = str(choice.all("option")[0].attrs["value"])
        wrong = client.post(path, data={"csrf": csrf, "format": "no-such"})
        assert wrong.status_code in {404, 422}
        check_page(wrong.text)
        assert client.post(path, data={"csrf": csrf, "format": name}).status_code == 303
        shown = check_page(client.get("/exports").text)
        assert name in shown.text


def test_a_new_users_token_is_shown_once_and_works(own_site: Site) -> None:
    with own_site.as_("admin") as client:
        csrf = csrf_of(client)
        made = client.post("/users", data={"csrf": csrf, "name": "nora", "role": "reviewer"})
        assert made.status_code == 201
        token = check_page(made.text).all("code", id="new-token")[0].text
        assert token not in client.get("/users").text
        bad = client.post("/users", data={"csrf": csrf, "name": "nora", "role": "reviewer"})
        assert bad.status_code == 409
        assert "nora" in check_page(bad.text).all("div", id="problem")[0].text
        client.cookies.clear()
        assert client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).json()["name"] == "nora"


def test_render_shows_the_exact_prompt_tokens(site: Site) -> None:
    tokenizer = str(Path(site.shop.ctx.settings.model_roots[0]) / "tiny")
    with site.as_("reviewer") as client:
        form = {
            "csrf": csrf_of(client),
            "tokenizer": tokenizer,
            "messages": '[{"role": "user", "content": "Hi <b> \u202e"}]',
        }
        page = check_page(client.post("/render", data=form).text)
        (strip,) = page.all("div", class_="strip")
        assert strip.text == "<|im_start|>user\nHi <b> \u202e<|im_end|>\n<|im_start|>assistant\n"
        tools = '[{"type": "function", "function": {"name": "f", "parameters": {"x": 1.10, "y": 1e400}}}]'
        digits = check_page(client.post("/render", data={**form, "tools": tools}).text)
        assert '"x": 1.10, "y": 1e400' in digits.all("div", class_="strip")[0].text
        bad = client.post("/render", data={**form, "messages": "[{]"})
        assert bad.status_code == 422
        assert "messages is not JSON" in bad.text
        outside = client.post("/render", data={**form, "tokenizer": "/etc"})
        assert outside.status_code == 422


def test_operators_alone_change_things_by_page(site: Site) -> None:
    with site.as_("reviewer") as client:
        csrf = csrf_of(client)
        for path in (
            "/backends/new",
            f"/backends/{site.backend_id}/start",
            "/runs",
            "/runs/new",
            f"/runs/{site.run_id}/pause",
            f"/runs/{site.run_id}/regenerate",
            f"/runs/{site.run_id}/exports",
            f"/runs/{site.run_id}/delete",
            f"/prompt-sets/{site.set_id}/delete",
            "/users",
        ):
            assert client.post(path, data={"csrf": csrf}).status_code == 403, path


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\u0000": 1}', '{"a": [[{"b": "x\\udfff"}]]}'])
def test_json_in_a_form_with_text_that_nothing_can_store_is_refused_at_its_field(site: Site, text: str) -> None:
    with site.as_("operator") as client:
        form = {"csrf": csrf_of(client), "format": "input_ids_jsonl", "options": text}
        answer = client.post(f"/runs/{site.run_id}/exports", data=form, headers={"accept": "application/json"})
        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "not_json", "options")


def test_a_form_with_a_nul_is_refused_on_every_database(site: Site) -> None:
    with site.as_("reviewer") as client:
        form = {"csrf": csrf_of(client), "body": "a\0b"}
        answer = client.post(f"{site.sample(0)}/comments", data=form, headers={"accept": "application/json"})
        assert (answer.status_code, answer.json()["field"]) == (422, "body")


def test_a_disabled_user_gets_no_token(own_site: Site) -> None:
    reviewer = own_site.people["reviewer"]
    with own_site.as_("admin") as client:
        csrf = csrf_of(client)
        client.patch(f"/api/v1/users/{reviewer.id}", json={"disabled": True}, headers={"X-CSRF-Token": csrf})
        assert client.post(f"/users/{reviewer.id}/token", data={"csrf": csrf}).status_code == 409


def test_the_way_back_from_an_error_leads_to_no_other_site(site: Site) -> None:
    with site.as_("reviewer") as client:
        for referer, back in (("/runs?after=x", True), ("//evil.example/x", False), ("/\\evil.example", False)):
            page = client.get("/runs/999999", headers={"referer": f"http://127.0.0.1{referer}"}).text
            assert (">Back<" in page) == back
            assert "evil.example" not in page
