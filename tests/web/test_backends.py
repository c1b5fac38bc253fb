"""A server's page tells at a glance how it stands, how that is known, what helps, and what may be done."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlmodel import select

from db.tables import Backend, BackendFigure, Run
from db.types import now
from tests.web.fleet import HOSTILE, seed_fleet
from tests.web.reading import Element, check_page, read
from tests.web.site import Site, csrf_of, open_site


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, dict[str, int]]]:
    with open_site(tmp_path_factory.mktemp("fleet")) as site:
        with site.shop.ctx.db.write() as session:
            numbers = seed_fleet(session)
        yield site, numbers


def shown(fleet: tuple[Site, dict[str, int]], name: str, query: str = "", role: str = "operator") -> Element:
    site, numbers = fleet
    with site.as_(role) as client:
        answer = client.get(f"/backends/{numbers[name]}{query}")
    assert answer.status_code == 200
    return read(answer.text) if "part=" in query else check_page(answer.text)


def words(element: Element) -> str:
    return " ".join(element.text.split())


STATES = (
    "starting", "loading", "ready", "unresponsive", "draining", "backoff", "failed", "unknown", "attached", "follower"
)  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_every_state_has_a_whole_page_that_runs_nothing_it_shows(fleet: tuple[Site, dict[str, int]], name: str) -> None:
    site, numbers = fleet
    with site.as_("operator") as client:
        text = client.get(f"/backends/{numbers[name]}").text
    check_page(text)
    assert "<script>document" not in text
    page = read(text)
    assert words(page.all("h1")[0]).startswith(name)
    assert page.all("p", class_="sentence")[0].text.strip()


def test_a_start_up_says_where_it_is_how_far_and_how_long_it_may_take(fleet: tuple[Site, dict[str, int]]) -> None:
    page = shown(fleet, "loading")
    (current,) = page.all("li", class_="current")
    assert current.attrs["aria-current"] == "step"
    assert "Weights" in words(current)
    assert "3 of 15" in words(current)
    assert "about 20 s left" in words(current)
    assert current.all("svg")[0].attrs["aria-label"] == "Weights: 3 of 15"
    assert [words(stage.all("b")[0]) for stage in page.all("li", class_="done")] == ["Process started", "Ranks come up"]
    assert len(page.all("li", class_="todo")) == 4
    assert "Given up in 29 min" in words(page.all("p", class_="stand")[0])


@pytest.mark.parametrize(("left_s", "hours_ago", "told"), [(5.5 * 3600, 2, "about 3 h"), (90.0, 2, None)])
def test_an_estimate_is_as_old_as_the_count_it_was_made_from(
    fleet: tuple[Site, dict[str, int]], left_s: float, hours_ago: float, told: str | None
) -> None:
    site, numbers = fleet
    with site.shop.ctx.db.write() as session:
        backend = session.get_one(Backend, numbers["loading"])
        before = backend.phase or {}
        counted_at = (now() - timedelta(hours=hours_ago)).isoformat()
        backend.phase = {**before, "left_s": left_s, "counted_at": counted_at}
    (current,) = shown(fleet, "loading").all("li", class_="current")
    with site.shop.ctx.db.write() as session:
        session.get_one(Backend, numbers["loading"]).phase = before
    assert "3 of 15" in words(current)
    assert told in words(current) if told is not None else "left" not in words(current)


def test_a_ready_servers_start_up_tells_how_long_each_stage_took(fleet: tuple[Site, dict[str, int]]) -> None:
    page = shown(fleet, "ready")
    took = {words(stage.all("b")[0]): words(stage.all("span")[0]) for stage in page.all("li", class_="done")}
    assert took["Weights"] == "1 min 1 s"
    assert took["Graphs"] == "31 s"
    assert "ready after 1 min 53 s" in words(page)


def test_a_failed_start_up_says_where_it_ended_why_and_what_helps(fleet: tuple[Site, dict[str, int]]) -> None:
    page = shown(fleet, "failed")
    (stage,) = page.all("li", class_="failed")
    assert words(stage) == "Memory pool ended here"
    assert {words(after.all("span")[0]) for after in page.all("li", class_="missed")} == {"not reached"}
    (diagnosis,) = page.all("section", class_="diagnosis")
    assert "No room for the KV cache" in words(diagnosis)
    assert "Raise mem_fraction_static" in words(diagnosis)
    assert HOSTILE in diagnosis.all("pre")[0].text
    assert "4 in a row" in words(page)


def test_the_figures_of_now_are_told_in_words_and_drawn(fleet: tuple[Site, dict[str, int]]) -> None:
    page = shown(fleet, "ready")
    charts = {words(chart.all("figcaption")[0]): chart for chart in page.all("figure")}
    assert set(charts) == {"Requests 12 running · 3 waiting", "Tokens a second 988", "KV cache in use 43 %",
                           "Prefix cache hits 31 %"}  # fmt: skip
    label = charts["Tokens a second 988"].all("svg")[0].attrs["aria-label"]
    assert label == "Tokens a second over the last 15 minutes: now 988, at least 700, at most 1,100."
    lines = [path.attrs["d"] or "" for path in charts["KV cache in use 43 %"].all("path", class_="line")]
    assert lines[0].count("M") == 2  # two minutes without a reading are a gap, not a line
    assert "from /v1/loads" in words(page)


def test_old_figures_are_called_old(fleet: tuple[Site, dict[str, int]]) -> None:
    text = words(shown(fleet, "unresponsive"))
    assert "the server wrote them 5 min 12 s before" in text
    assert "4 running" in text


def test_figures_of_a_server_that_is_gone_are_not_shown_as_now(fleet: tuple[Site, dict[str, int]]) -> None:
    site, numbers = fleet
    with site.shop.ctx.db.write() as session:
        backend = session.get(Backend, numbers["failed"])
        assert backend is not None
        backend.figures = {"at": now().isoformat(), "source": "loads", "running": 77}
    assert "77 running" not in words(shown(fleet, "failed"))
    assert "running 77" not in words(shown(fleet, "failed"))


def test_a_window_of_time_can_be_chosen_and_a_wrong_one_shows_the_first(fleet: tuple[Site, dict[str, int]]) -> None:
    for query, chosen in (("?minutes=60", "1 h"), ("?minutes=7", "15 min"), ("", "15 min")):
        page = shown(fleet, "ready", query)
        assert [words(link) for link in page.all("a") if link.attrs.get("aria-current") == "true" and "minutes=" in str(link.attrs["href"])] == [chosen]  # fmt: skip


def test_what_is_wanted_stands_beside_what_is_where_they_differ(fleet: tuple[Site, dict[str, int]]) -> None:
    wanted = {name: [words(badge) for badge in shown(fleet, name).all("p", class_="stand")[0].all("span", class_="badge")]
              for name in STATES}  # fmt: skip
    assert "wanted: stopped" in wanted["draining"]
    assert "wanted: running" in wanted["failed"]
    assert "wanted: running" in wanted["unknown"]
    assert wanted["ready"] == wanted["follower"] == wanted["starting"] == []


def test_the_time_that_runs_is_counted_down(fleet: tuple[Site, dict[str, int]]) -> None:
    assert "Requests in flight may finish for" in words(shown(fleet, "draining").all("p", class_="stand")[0])
    assert "Started again in" in words(shown(fleet, "backoff").all("p", class_="stand")[0])


def test_an_open_breaker_is_told_with_its_reason(fleet: tuple[Site, dict[str, int]]) -> None:
    text = words(shown(fleet, "unresponsive"))
    assert "Runs send nothing to it until" in text
    assert "5 requests in a row failed: /generate did not answer within 60 s." in text


def test_a_breaker_whose_pause_is_over_is_told_as_trying_though_nobody_sends(
    fleet: tuple[Site, dict[str, int]],
) -> None:
    site, numbers = fleet
    with site.shop.ctx.db.write() as session:
        backend = session.get_one(Backend, numbers["unresponsive"])
        before = backend.breaker or {}
        backend.breaker = {**before, "until": (now() - timedelta(seconds=1)).isoformat()}
    text = words(shown(fleet, "unresponsive"))
    with site.as_("operator") as client:
        row = words(read(client.get("/backends?part=rows").text))
    with site.shop.ctx.db.write() as session:
        session.get_one(Backend, numbers["unresponsive"]).breaker = before
    assert "Runs try it with one request. 5 requests in a row failed" in text
    assert "breaker half open" in row


def test_a_followers_page_says_whose_part_it_is(fleet: tuple[Site, dict[str, int]]) -> None:
    assert "node 1 of 2; requests go to node 0" in words(shown(fleet, "follower"))


def test_the_command_can_be_run_by_a_shell_as_it_is_shown(fleet: tuple[Site, dict[str, int]]) -> None:
    import shlex

    (command,) = shown(fleet, "ready").all("pre", id="command")
    read_by_shell = shlex.split(command.text.replace("\\\n", " "))
    assert read_by_shell[:5] == ["CUDA_VISIBLE_DEVICES=GPU-1f0e2d3c,GPU-4b5a6978", "python", "-m", "sglang.launch_server", "--model-path"]  # fmt: skip
    assert read_by_shell[5] == "/models/Qwen3 8B"


def test_past_starts_are_listed_with_how_they_ended(fleet: tuple[Site, dict[str, int]]) -> None:
    (lives,) = shown(fleet, "ready").all("ol", class_="lives")
    newest, oldest = lives.all("li")
    assert "ready after 1 min 53 s" in words(newest)
    assert "No room for the KV cache" in words(oldest)
    assert "exit code -9" in words(oldest)


@pytest.mark.parametrize("part", ["standing", "diagnosis", "figures", "evidence", "past"])
def test_each_live_part_is_drawn_alone_as_in_the_page(fleet: tuple[Site, dict[str, int]], part: str) -> None:
    page = shown(fleet, "failed")
    (whole,) = page.all("div", id=f"live-{part}")
    address = str(whole.attrs["data-live"])
    assert f"part={part}" in address
    alone = shown(fleet, "failed", "?" + address.partition("?")[2])
    assert alone.all("h1") == [] or part == "standing"
    assert [element.tag for element in alone.all("section")] == [element.tag for element in whole.all("section")]


def test_buttons_are_the_legal_moves_and_ask_before_they_end_something(fleet: tuple[Site, dict[str, int]]) -> None:
    site, numbers = fleet
    with site.as_("operator") as client:
        for name, number in numbers.items():
            allowed = client.get(f"/api/v1/backends/{number}").json()["allowed"]
            forms = {str(form.attrs["action"]).rpartition("/")[2]: form for form in
                     read(client.get(f"/backends/{number}").text).all("form", method="post") if "/backends/" in str(form.attrs["action"])}  # fmt: skip
            assert set(forms) == set(allowed), name
            for action in {"stop", "restart", "kill", "forget", "delete"} & set(forms):
                assert forms[action].attrs.get("data-confirm") or name in {"backoff", "failed", "unknown"}, (
                    name,
                    action,
                )


def test_a_stop_names_the_run_that_it_holds_up(own_site: Site) -> None:
    with own_site.shop.ctx.db.write() as session:
        run = session.exec(select(Run)).one()
        run.state = "paused"
        backend = session.get(Backend, own_site.backend_id)
        assert backend is not None
        backend.desired_state = "running"
    with own_site.as_("operator") as client:
        page = read(client.get(f"/backends/{own_site.backend_id}").text)
        (stop,) = [form for form in page.all("form") if str(form.attrs["action"]).endswith("/stop")]
        assert f"Run {own_site.run_id} (r) uses it." in str(stop.attrs["data-confirm"])
        listed = read(client.get("/backends").text)
        assert f"/runs/{own_site.run_id}" in [link.attrs["href"] for link in listed.all("a")]


def test_the_list_tells_each_ones_state_figures_and_trouble(fleet: tuple[Site, dict[str, int]]) -> None:
    site, numbers = fleet
    with site.as_("reviewer") as client:
        text = client.get("/backends").text
        assert read(client.get("/backends?part=rows").text).all("h1") == []
    page = check_page(text)
    assert "<script>document" not in text
    lines = {
        words(line.all("a")[0]): line
        for line in page.all("ul", class_="fleet")[0].children
        if isinstance(line, Element)
    }
    assert set(numbers) - {"attached"} <= set(lines)
    ready = words(lines["ready"])
    for part in ("running 12", "waiting 3", "KV cache 43 %", "tokens/s 988", "Qwen3-8B"):
        assert part in ready
    assert lines["ready"].all("svg", class_="spark")
    assert lines["loading"].all("svg")[0].attrs["aria-label"] == "Weights: 3 of 15"
    assert "about 20 s left" in words(lines["loading"])
    assert "2 crashes in a row" in words(lines["backoff"])
    assert "Started again in" in words(lines["backoff"])
    assert "breaker open" in words(lines["unresponsive"])
    assert "No room for the KV cache" in words(lines["failed"])
    assert "running" not in words(lines["failed"]).replace("wanted: running", "")


def test_the_home_page_tells_the_figures_too(fleet: tuple[Site, dict[str, int]]) -> None:
    site, _ = fleet
    with site.as_("reviewer") as client:
        text = words(read(client.get("/?part=backends").text))
    assert "12 running" in text


def test_a_backend_without_any_past_has_a_page(own_site: Site) -> None:
    with own_site.shop.ctx.db.write() as session:
        backend = Backend(name="fresh", kind="managed", launch={"model_path": "/models/x"}, message="Not started yet.")
        session.add(backend)
        session.flush()
        session.add(BackendFigure(backend_id=backend.id or 0, at=now() - timedelta(minutes=2), source="log", running=1))
        number = backend.id
    with own_site.as_("operator") as client:
        text = client.get(f"/backends/{number}").text
    check_page(text)
    assert "never started" in words(read(text))


def test_a_reader_may_not_press_what_only_operators_may(fleet: tuple[Site, dict[str, int]]) -> None:
    site, numbers = fleet
    with site.as_("reviewer") as client:
        csrf = csrf_of(client)
        for action in ("start", "stop", "kill", "forget"):
            assert client.post(f"/backends/{numbers['ready']}/{action}", data={"csrf": csrf}).status_code == 403
