"""A server's log on its page: read without script, followed with it, in any theme and width; hostile lines run nothing."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from sqlmodel import select

from api import sse
from db.tables import Backend, BackendStart
from db.types import now
from tests.support.browser import served
from tests.web.reading import Element, check_page, read
from tests.web.site import HOSTILE, Site, open_site

KEY = "0f1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778"
T = "[2026-11-30 07:03:24] "
START_UP = f"""/site-packages/sglang/launch_server.py:71: UserWarning: still supported
{T}server_args={{'model_path': '/m', 'api_key': '{KEY}', 'x': '{"long " * 2000}'}}
{T}Load weight begin. avail mem=21.09 GB
shards:   0%| 0/2\rshards:  50%| 1/2\rshards: 100%| 2/2
{T}INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)
{T}Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0
{T}INFO:     127.0.0.1:47738 - "GET /health HTTP/1.1" 200 OK
{T}Scheduler hit an exception: Traceback (most recent call last):
  File "scheduler.py", line 6362, in run_scheduler_process
RuntimeError: {HOSTILE.replace(chr(10), " ").replace(chr(13), " ")}

"""
SAME = f"{T}KV cache pool is full. Retract requests. #retracted_reqs: 2\n"


class Log:
    """A managed backend with two starts: the first ended, the second is current."""

    def __init__(self, site: Site) -> None:
        self.site = site
        ctx = site.shop.ctx
        with ctx.db.write() as session:
            backend = Backend(name="managed <b>&", kind="managed", observed_state="ready", launch={"model_path": "/m"})
            session.add(backend)
            session.flush()
            assert backend.id is not None
            self.backend_id = backend.id
            folder = ctx.settings.data_dir / "logs" / f"backend-{backend.id}"
            folder.mkdir(parents=True)
            self.paths = [folder / f"start-{number}.log" for number in (1, 2)]
            for number, path in enumerate(self.paths, 1):
                ended = now() if number == 1 else None
                start = BackendStart(
                    backend_id=backend.id,
                    number=number,
                    log_path=str(path),
                    ended_at=ended,
                    ending="It ended." if ended else None,
                    exit_code=0 if ended else None,
                )
                session.add(start)
                session.flush()
                backend.start_id = start.id
        self.paths[0].write_text("the first start's line\n")
        self.paths[1].write_text(START_UP + SAME * 200_000)

    @property
    def url(self) -> str:
        return f"/backends/{self.backend_id}"

    def say(self, text: str) -> None:
        with self.paths[1].open("a") as file:
            file.write(text)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with open_site(tmp_path_factory.mktemp("log")) as site:
        yield Log(site)


@pytest.fixture
def own_log(own_site: Site) -> Log:
    return Log(own_site)


def shown(log: Log, query: str = "") -> tuple[Element, str]:
    with log.site.as_("reviewer") as client:
        answer = client.get(f"{log.url}{query}")
    assert answer.status_code == 200
    check_page(answer.text)
    assert KEY not in answer.text
    return read(answer.text), answer.text


def lines(page: Element) -> list[Element]:
    return [found for found in page.all("span") if "ln" in found.attrs.get("class", "").split()]


def test_the_page_shows_the_end_of_the_log_folded_by_level_and_with_health_checks_named(log: Log) -> None:
    page, text = shown(log)
    rows = lines(page)
    assert "× 200,000, 07:03:24 to 07:03:24" in rows[-1].text
    assert rows[-1].attrs["class"] == "ln warning"
    by_text = {row.text: row.attrs["class"] for row in rows}
    assert [name for said, name in by_text.items() if "hit an exception" in said] == ["ln error"]
    assert [name for said, name in by_text.items() if "health check" in said] == ["ln info noted"] * 2
    assert "shards: 100%| 2/2\n" in by_text
    assert "<script>document" not in text


def test_the_form_finds_lines_by_word_level_and_start(log: Log) -> None:
    assert [row.text.split("] ")[-1].strip() for row in lines(shown(log, "?q=UVICORN")[0])] == [
        "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)"
    ]
    assert {row.attrs["class"] for row in lines(shown(log, "?level=error")[0])} == {"ln error"}
    page, text = shown(log, "?start=1")
    assert [row.text for row in lines(page)] == ["the first start's line\n"]
    assert "data-stream" not in text, "nothing more comes of a start that ended"
    (none,) = [
        found for found in shown(log, "?q=no+such+line+at+all")[0].all("p") if found.attrs.get("id") == "log-none"
    ]
    assert "hidden" not in none.attrs
    assert "No such line" in none.text
    assert shown(log, "?q=%3Cscript%3E&level=nonsense&before=x")[0] is not None


def test_a_start_that_never_was_is_a_page_that_says_so(log: Log) -> None:
    with log.site.as_("reviewer") as client:
        for number in ("7", "x", "9" * 30):
            answer = client.get(f"{log.url}?start={number}")
            assert answer.status_code == 404
            assert "There is no start" in answer.text


def test_older_lines_are_a_link_away(log: Log) -> None:
    log.paths[0].write_text("".join(f"line {number}\n" for number in range(500)))
    try:
        page, text = shown(log, "?start=1")
        assert lines(page)[-1].text == "line 499\n"
        (older,) = re.findall(r'href="([^"]*before=\d+[^"]*)#log"', text)
        page, text = shown(log, older.replace("&amp;", "&").removeprefix(log.url))
        assert lines(page)[-1].text == "line 299\n"
        assert "Newest lines" in text
    finally:
        log.paths[0].write_text("the first start's line\n")


def open_page(browser: Browser, log: Log, url: str, **options: object) -> Page:
    context = browser.new_context(**options)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/login")
    page.get_by_label("Token").fill(log.site.people["reviewer"].token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{url}/")
    page.goto(f"{url}{log.url}")
    return page


@pytest.mark.browser
def test_the_page_follows_folds_and_finds_while_the_log_grows(
    own_log: Log, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "EVERY_S", 0.1)
    faults: list[str] = []
    with served(own_log.site.app) as url:
        page = open_page(browser, own_log, url)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.reload()
        box = page.locator("#log-lines")
        expect(box.locator(".ln").last).to_contain_text("× 200,000")
        own_log.say(SAME.replace("24]", "59]") * 5)
        expect(box.locator(".ln").last).to_contain_text("× 200,005, 07:03:24 to 07:03:59")
        own_log.say("shards:  10%| 1/9\rshards:  20%| 2/9")
        expect(box.locator(".unfinished")).to_have_text("shards:  20%| 2/9\n")
        own_log.say("\rshards: 100%| 9/9\n[2026-11-30 07:04:00] <img src=x onerror=\"document.title='owned'\">\n")
        expect(box.locator(".ln").last).to_contain_text("<img src=x")
        expect(box.locator(".ln").nth(-2)).to_have_text("shards: 100%| 9/9\n")
        expect(box.locator(".unfinished")).to_have_count(0)
        assert page.evaluate("el => el.scrollTop + el.clientHeight >= el.scrollHeight - 2", box.element_handle())
        own_log.say("".join(f"distinct {number}\n" for number in range(6000)))
        expect(box.locator(".ln").last).to_have_text("distinct 5999\n")
        assert box.locator(".ln").count() <= 2000
        box.evaluate("el => { el.scrollTop = 10; }")
        expect(page.get_by_label("follow")).not_to_be_checked()
        own_log.say("and on\n")
        expect(box.locator(".ln").last).to_have_text("and on\n")
        assert box.evaluate("el => el.scrollTop") < 200, "who reads is left where they read"
        own_log.say('[2026-11-30 10:00:09] INFO:     127.0.0.1:5 - "GET /ready HTTP/1.1" 200 OK\n')
        noted = page.locator("#log-lines .noted").last
        expect(noted).to_be_visible()
        page.get_by_label("health checks").uncheck()
        expect(noted).to_be_hidden()
        page.get_by_label("wrap lines").uncheck()
        expect(box).to_have_class(re.compile("nowrap"))
        page.get_by_label("Lines that hold").fill("needle")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#log-none")).to_contain_text("No such line")
        own_log.say("hay\nthe Needle\nhay\n")
        expect(page.locator("#log-lines .ln")).to_have_text(["the Needle\n"])
        assert page.title() != "owned"
        assert faults == []
        page.context.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1200])
def test_the_log_can_be_read_by_everybody(log: Log, browser: Browser, scheme: str, width: int) -> None:
    with served(log.site.app) as url:
        page = open_page(browser, log, url, color_scheme=scheme, viewport={"width": width, "height": 900})
        found = Axe().run(page, context="#log")
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.context.close()


@pytest.mark.browser
def test_without_script_the_form_and_the_links_do(log: Log, browser: Browser) -> None:
    with served(log.site.app) as url:
        page = open_page(browser, log, url, java_script_enabled=False)
        page.get_by_label("Level").select_option("error")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#log-lines .ln.error").first).to_contain_text("hit an exception")
        expect(page.get_by_label("follow")).to_be_hidden()
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Download all").click()
        text = Path(waiting.value.path()).read_text()
        assert waiting.value.suggested_filename == f"backend-{log.backend_id}-start-2.log"
        assert text.count("Retract requests") == 200_000
        assert KEY not in text
        page.context.close()


def test_a_log_that_is_gone_and_a_server_never_started_say_so(own_log: Log) -> None:
    own_log.paths[0].unlink()
    assert "not kept any more" in shown(own_log, "?start=1")[1]
    with own_log.site.shop.ctx.db.write() as session:
        backend = session.exec(select(Backend).where(Backend.id == own_log.backend_id)).one()
        backend.start_id = None
    assert "No log yet" in shown(own_log)[1]
