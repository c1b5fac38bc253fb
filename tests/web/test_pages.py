"""Every page: for whom, in words, safe against what models and people write, and with its REST twin."""

import re

import pytest

from tests.web.reading import check_page, read
from tests.web.site import CALL, HOSTILE, Site, encode

PAGES = (
    "/",
    "/backends",
    "/backends/new",
    "/backends/new?kind=attached",
    "/backends/flags",
    "/backends/{backend}",
    "/backends/{backend}/edit",
    "/prompt-sets",
    "/prompt-sets/{set}",
    "/runs",
    "/runs/new",
    "/runs/{run}",
    "/runs/{run}/samples",
    "/runs/{run}/samples?category=facts&-flag=none&sort=-len",
    "/samples/{sample}",
    "/samples/{sample}?view=raw&prompt=1",
    "/samples/{sample}?view=seg",
    "/samples/{sample}?view=text",
    "/samples/{sample}?category=facts&t=2-5",
    "/render",
    "/token-formats",
    "/token-formats?tokenizer=tiny",
    "/flags",
    "/exports",
    "/users",
)
OPERATORS = {"/users", "/runs/new", "/backends/new", "/backends/new?kind=attached", "/backends/{backend}/edit"}


def fill(site: Site, path: str, sample: int = 2) -> str:
    return path.format(backend=site.backend_id, set=site.set_id, run=site.run_id, sample=site.samples[sample])


@pytest.mark.parametrize("path", PAGES)
def test_page_is_whole_and_keeps_to_the_policy(site: Site, path: str) -> None:
    with site.as_("admin") as client:
        answer = client.get(fill(site, path))
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    check_page(answer.text)
    assert "<script>document" not in answer.text
    assert "<b>&" not in answer.text


@pytest.mark.parametrize("path", [path for path in PAGES if path not in OPERATORS])
def test_reviewers_see_every_page_but_those_that_only_change_things(site: Site, path: str) -> None:
    with site.as_("reviewer") as client:
        assert client.get(fill(site, path)).status_code == 200


@pytest.mark.parametrize("path", sorted(OPERATORS))
def test_pages_above_a_role_say_which_role_they_need(site: Site, path: str) -> None:
    with site.as_("reviewer") as client:
        answer = client.get(fill(site, path))
    assert answer.status_code == 403
    check_page(answer.text)
    assert "needs the role" in answer.text


def test_reviewers_are_offered_no_button_they_may_not_press(site: Site) -> None:
    with site.as_("reviewer") as client:
        for path in ("/runs/{run}", "/backends/{backend}", "/prompt-sets", "/prompt-sets/{set}", "/backends", "/runs"):
            actions = {
                form.attrs["action"] for form in read(client.get(fill(site, path)).text).all("form", method="post")
            }
            assert actions == {"/logout"}, path


@pytest.mark.parametrize("path", PAGES)
def test_page_names_its_rest_twin(site: Site, path: str) -> None:
    with site.as_("admin") as client:
        page = read(client.get(fill(site, path)).text)
    (command,) = [element.text for element in page.all("pre", id="curl")]
    assert command.startswith("curl ")
    assert "$DRAFTMILL_TOKEN" in command
    assert "/api/v1/" in command


def test_sample_page_holds_exactly_the_stored_tokens(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = check_page(client.get(site.sample(2)).text)
    (strip,) = page.all("div", id="strip")
    tokens = strip.all("i")
    stored = encode(site.shop, f"<think>{HOSTILE}</think>\n\n{HOSTILE}<|im_end|>")
    assert [int(token.attrs["data-i"] or "") for token in tokens] == stored
    assert [token.attrs["id"] for token in tokens] == [f"t{index}" for index in range(len(stored))]
    assert strip.text == f"<think>{HOSTILE}</think>\n\n{HOSTILE}<|im_end|>"


def test_every_view_holds_the_hostile_text_as_text(site: Site) -> None:
    with site.as_("reviewer") as client:
        for view in ("split", "seg", "text"):
            page = read(client.get(f"{site.sample(2)}?view={view}").text)
            shown = [element.text for element in page.all("pre")]
            assert any(HOSTILE in text for text in shown), view


def test_tool_call_is_laid_out_beside_its_raw_text_without_changing_a_digit(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get(site.sample(1)).text)
    (card,) = [item for item in page.all("div", class_="tool_call") if item.has({"class_": "seg"})]
    texts = [element.text for element in card.all("pre")]
    assert '{\n  "city": "Oslo",\n  "id": 12345678901234567890\n}' in texts
    assert any(CALL in text for text in texts)


def test_broken_tool_call_is_shown_raw_with_what_is_wrong(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get(site.sample(3)).text)
    (card,) = [item for item in page.all("div", class_="tool_call") if item.has({"class_": "seg"})]
    assert '{"name": "get_time", "arguments": {"city": ' in card.text
    assert "tool json invalid" in page.text


def test_flags_lead_to_the_tokens_they_cite(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get(site.sample(4)).text)
        flags = [link for link in page.all("a", class_="flag") if link.attrs.get("data-range")]
        assert flags
        for link in flags:
            start, end = map(int, str(link.attrs["data-range"]).split("-"))
            target = str(link.attrs["href"])
            assert target.endswith(f"#t{start}")
            marked = list(read(client.get(target.partition("#")[0]).text).all("i", class_="m"))
            assert [token.attrs["id"] for token in marked] == [f"t{index}" for index in range(start, end)]


def test_facts_are_in_view(site: Site) -> None:
    with site.as_("reviewer") as client:
        known = read(client.get(site.sample(0)).text).all("div", class_="known")[0].text
    assert "finish stop on <|im_end|>" in " ".join(known.split())
    for part in ("attempt 1 of 1", "backend fake", "temperature 0.6", "output", "prompt"):
        assert part in " ".join(known.split())


def test_segments_tile_the_output(site: Site) -> None:
    with site.as_("reviewer") as client:
        for number in range(5):
            page = read(client.get(site.sample(number)).text)
            ranges = [str(link.text).replace(",", "").split("–") for link in page.all("a", class_="range")]
            total = len(page.all("div", id="strip")[0].all("i"))
            assert [int(start) for start, _ in ranges] == [0, *(int(end) for _, end in ranges[:-1])]
            assert int(ranges[-1][1]) == total


def test_next_and_previous_stay_inside_the_filter(site: Site) -> None:
    with site.as_("reviewer") as client:
        listed = re.findall(r"data-row>(\d+)<", client.get(f"/runs/{site.run_id}/samples?category=facts").text)
        seen, target = [], f"/samples/{listed[0]}?category=facts"
        while target:
            page = read(client.get(target).text)
            seen.append(target.partition("?")[0].rpartition("/")[2])
            target = next((str(link.attrs["href"]) for link in page.all("a", rel="next")), "")
    assert seen == listed
    assert len(seen) == 5


def test_filter_becomes_chips_that_remove_themselves(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get(f"/runs/{site.run_id}/samples?category=facts&-tag=loop&len=1..&sort=-len").text)
        chips = {str(chip.attrs.get("aria-label")): str(chip.attrs["href"]) for chip in page.all("a", class_="chip")}
        assert set(chips) >= {"Remove category facts", "Remove not tag loop", "Remove len 1.."}
        without = chips["Remove category facts"]
        assert "category" not in without
        assert "sort=-len" in without
        assert client.get(without).status_code == 200
        hidden = {element.attrs["name"] for element in page.all("form", method="get")[0].all("input", type="hidden")}
        assert hidden == {"-tag"}


def test_a_condition_that_no_choice_offers_survives_applying_another(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get(f"/runs/{site.run_id}/samples?finish=abort&category=gone").text)
    for name, value in (("finish", "abort"), ("category", "gone")):
        chosen = [
            option.attrs["value"]
            for option in page.all("select", id=f"f-{name}")[0].all("option")
            if "selected" in option.attrs
        ]
        assert chosen == [value]


def test_list_shows_every_sample_once_over_its_pages(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.routes.samples.PAGE", 3)
    seen: list[str] = []
    with site.as_("reviewer") as client:
        target = f"/runs/{site.run_id}/samples?sort=-len"
        while target:
            text = client.get(target).text
            seen += re.findall(r"data-row>(\d+)<", text)
            target = next((str(link.attrs["href"]) for link in read(text).all("a", rel="next")), "")
    assert sorted(map(int, seen)) == sorted(site.samples)
    assert len(seen) == len(site.samples)


def test_empty_filter_result_says_what_to_do(site: Site) -> None:
    with site.as_("reviewer") as client:
        answer = client.get(f"/runs/{site.run_id}/samples?q=nothing-like-this")
    assert "Nothing matches" in answer.text
    assert ">0<" in answer.text.replace('<span class="num">', ">").replace("</span>", "<")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/runs/{run}/samples?colour=red", 422, "colour"),
        ("/runs/{run}/samples?len=abc", 422, "len"),
        ("/samples/{sample}?colour=red", 422, "colour"),
        ("/runs/999999", 404, "999999"),
        ("/samples/999999", 404, "999999"),
        ("/samples/{sample}?attempt=9", 404, "attempt"),
        ("/backends/999999", 404, "999999"),
        ("/prompt-sets/999999", 404, "999999"),
        ("/no-such-page", 404, "nothing at this address"),
        ("/runs/not-a-number", 422, "run_id"),
    ],
)
def test_errors_are_pages_in_words(site: Site, path: str, status: int, words: str) -> None:
    with site.as_("reviewer") as client:
        answer = client.get(fill(site, path))
    assert answer.status_code == status
    page = check_page(answer.text)
    assert words in page.all("main")[0].text


def test_a_fault_of_ours_tells_nothing_of_the_inside(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr("web.routes.runs.service.list_runs", broken)
    with site.as_("reviewer") as client:
        answer = client.get("/runs")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "ZeroDivision" not in answer.text
    check_page(answer.text)


@pytest.mark.parametrize(
    "token",
    ["t=abc", "t=5-2", "t=99999999999999999999999999", "t=-1", "t=3", "tfrom=3", "view=<b>", "prompt=1", "end=1"],
)
def test_odd_ways_of_looking_never_break_the_page(site: Site, token: str) -> None:
    with site.as_("reviewer") as client:
        answer = client.get(f"{site.sample(0)}?{token}")
    assert answer.status_code == 200
    check_page(answer.text)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/", "backends"),
        ("/", "runs"),
        ("/backends", "rows"),
        ("/runs", "rows"),
        ("/exports", "rows"),
        ("/backends/{backend}", "standing"),
    ]
    + [("/runs/{run}", part) for part in ("standing", "figures", "rederived", "exported", "events")],
)
def test_live_part_is_a_fragment_that_the_page_holds_as_well(site: Site, path: str, part: str) -> None:
    with site.as_("operator") as client:
        fragment = client.get(fill(site, path), params={"part": part})
    assert fragment.status_code == 200
    assert "<html" not in fragment.text
    read(fragment.text)
    for form in read(fragment.text).all("form", method="post"):
        assert form.all("input", name="csrf")


def test_at_most_one_event_stream_a_page(site: Site) -> None:
    with site.as_("admin") as client:
        for path in PAGES:
            page = read(client.get(fill(site, path)).text)
            assert len([element for element in page.all("*") if "data-stream" in element.attrs]) <= 1


def test_theme_is_drawn_by_the_server(site: Site) -> None:
    with site.as_("reviewer") as client:
        client.cookies.set("theme", "dark")
        assert '<html lang="en" class="dark">' in client.get("/").text
        client.cookies.set("theme", '"><script>')
        assert '<html lang="en">' in client.get("/").text


def test_static_files_are_kept_under_their_version_alone(site: Site) -> None:
    with site.as_("reviewer") as client:
        (href, *_) = re.findall(r'href="(/static/[^"]+\.css)"', client.get("/").text)
        answer = client.get(href)
        assert answer.headers["content-type"] == "text/css; charset=utf-8"
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip"
        assert client.get(href, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
        other = re.sub(r"/static/\w+/", "/static/0/", href)
        assert client.get(other).headers["cache-control"] == "no-cache"
        assert client.get("/static/0/..%2Fshell.py").status_code == 404


def test_log_in_page_needs_no_log_in_and_a_link_is_spent_by_its_button_alone(site: Site) -> None:
    with site.as_("reviewer") as client:
        client.cookies.clear()
        answer = client.get("/runs")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login?next=")
        page = check_page(client.get(answer.headers["location"]).text)
        assert [field.attrs["value"] for field in page.all("input", name="next")] == ["/runs"]
        assert page.all("input", type="password", name="token")
        linked = check_page(client.get("/login?code=abc").text)
        assert [field.attrs["value"] for field in linked.all("input", name="code")] == ["abc"]
        wrong = client.post("/login", data={"token": "nonsense"})
        assert wrong.status_code == 401
        assert "unknown or was revoked" in check_page(wrong.text).text
