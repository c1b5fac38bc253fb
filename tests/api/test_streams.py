"""Live streams and commits, over a real socket."""

import asyncio
import json
import threading
from types import SimpleNamespace

import httpx
import pytest
from sqlalchemy import event
from sqlmodel import select

from api import sse
from api.logfeed import News
from db.tables import Backend, BackendStart, Run, Tag
from inference.backends.logs.folding import LogLine
from inference.backends.logs.reading import Lines
from tests.api.conftest import own_settings, people_of, running_app
from tests.api.samples import seed_run
from tests.api.server import serving


@pytest.fixture
def live_app(tmp_path):
    yield from running_app(own_settings(tmp_path))


def events(lines, count: int) -> list[dict[str, str]]:
    """The next `count` events of a stream that carry data."""
    found, current = [], {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "" and "data" in current:
            found.append(current)
            if len(found) == count:
                return found
        if line == "":
            current = {}
        elif name:
            current[name] = value
    raise AssertionError(f"the stream ended after {found}")


def test_a_run_is_told_again_when_it_changed_and_not_to_who_has_it_already(live_app):
    people, seeded = people_of(live_app), seed_run(live_app)
    with (
        serving(live_app) as (url, _),
        httpx.Client(base_url=url, headers=people.reviewer.headers, timeout=30) as client,
    ):
        with client.stream("GET", f"/api/v1/runs/{seeded.run_id}/stream") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            (first,) = events(lines, 1)
            assert first["event"] == "run"
            assert json.loads(first["data"])["id"] == seeded.run_id
            rename(live_app, seeded.run_id, "renamed")
            (second,) = events(lines, 1)
            assert json.loads(second["data"])["name"] == "renamed"
            assert second["id"] != first["id"]
        headers = {"Last-Event-ID": second["id"]}
        with client.stream("GET", f"/api/v1/runs/{seeded.run_id}/stream", headers=headers) as answer:
            lines = answer.iter_lines()
            rename(live_app, seeded.run_id, "once more")
            (third,) = events(lines, 1)
            assert json.loads(third["data"])["name"] == "once more"


def rename(app, run_id: int, name: str) -> None:
    with app.state.context.db.write() as session:
        session.get_one(Run, run_id).name = name


def test_streams_end_when_the_app_closes(live_app):
    people, seeded = people_of(live_app), seed_run(live_app)
    opened, ended = threading.Event(), threading.Event()

    def watch(url: str) -> None:
        with httpx.stream(
            "GET", f"{url}/api/v1/runs/{seeded.run_id}/stream", headers=people.reviewer.headers, timeout=60
        ) as answer:
            for _ in answer.iter_lines():
                opened.set()
            ended.set()

    with serving(live_app) as (url, server):
        watcher = threading.Thread(target=watch, args=(url,))
        watcher.start()
        assert opened.wait(30)
        server.should_exit = True
        watcher.join(30)
    assert ended.is_set()


def test_a_stream_of_what_is_not_there_is_a_404(live_app):
    people = people_of(live_app)
    with serving(live_app) as (url, _):
        for path in ("runs/7/stream", "backends/7/logs/stream"):
            answer = httpx.get(f"{url}/api/v1/{path}", headers=people.reviewer.headers)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def add_log(app, text: bytes) -> tuple[int, int]:
    """A backend whose current start has this log: backend id, start id."""
    ctx = app.state.context
    with ctx.db.write() as session:
        backend = session.exec(select(Backend)).first() or Backend(name="b", kind="managed")
        session.add(backend)
        session.flush()
        start = BackendStart(backend_id=backend.id, number=1)
        session.add(start)
        session.flush()
        path = ctx.settings.data_dir / "logs" / f"{start.id}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
        start.log_path = str(path)
        backend.start_id = start.id
        return backend.id, start.id


def test_a_log_is_told_on_from_its_byte_offset_and_through_a_restart(live_app):
    people = people_of(live_app)
    backend_id, start_id = add_log(live_app, b"one\ntwo\n")
    path = f"/api/v1/backends/{backend_id}/logs"
    with (
        serving(live_app) as (url, _),
        httpx.Client(base_url=url, headers=people.reviewer.headers, timeout=30) as client,
    ):
        tail = client.get(path, params={"tail": 1})
        assert tail.text == "two"
        assert tail.headers["content-type"].startswith("text/plain")
        assert tail.headers["x-log-position"] == f"{start_id}-8"
        with client.stream("GET", f"{path}/stream") as answer:
            (first,) = events(answer.iter_lines(), 1)
        assert (json.loads(first["data"]), first["id"]) == ("one\ntwo\n", f"{start_id}-8")
        log = live_app.state.context.settings.data_dir / "logs" / f"{start_id}.log"
        log.write_bytes(b"one\ntwo\nthree\n")
        for way in ({"headers": {"Last-Event-ID": first["id"]}}, {"params": {"from": first["id"]}}):
            with client.stream("GET", f"{path}/stream", **way) as answer:
                (more,) = events(answer.iter_lines(), 1)
            assert (json.loads(more["data"]), more["id"]) == ("three\n", f"{start_id}-14")
        _, second_start = add_log(live_app, b"again\n")
        with client.stream("GET", f"{path}/stream", headers={"Last-Event-ID": first["id"]}) as answer:
            rest = events(answer.iter_lines(), 3)
        assert [(item["event"], json.loads(item["data"])) for item in rest] == [
            ("log", "three\n"),
            ("restart", {"start": second_start}),
            ("log", "again\n"),
        ]


def test_keys_are_masked_in_a_told_log(live_app):
    people = people_of(live_app)
    backend_id, _ = add_log(live_app, b"server_args=ServerArgs(api_key='sk-very-secret', x=1)\n")
    with serving(live_app) as (url, _):
        text = httpx.get(f"{url}/api/v1/backends/{backend_id}/logs", headers=people.reviewer.headers).text
    assert "sk-very-secret" not in text
    assert "x=1" in text


def test_a_stream_lives_a_bounded_time(live_app, monkeypatch):
    monkeypatch.setattr(sse, "LIFETIME_S", 0.0)
    people, seeded = people_of(live_app), seed_run(live_app)
    with serving(live_app) as (url, _):
        answer = httpx.get(f"{url}/api/v1/runs/{seeded.run_id}/stream", headers=people.reviewer.headers, timeout=30)
    assert answer.status_code == 200
    assert f"retry: {sse.RETRY_MS}" in answer.text


def test_what_was_answered_is_committed_and_a_failed_commit_is_no_success(live_app):
    people = people_of(live_app)
    db = live_app.state.context.db
    with (
        serving(live_app) as (url, _),
        httpx.Client(base_url=url, headers=people.reviewer.headers, timeout=30) as client,
    ):
        for number in range(20):
            assert client.post("/api/v1/tags", json={"name": f"t{number}"}).status_code == 201
            with db.read() as session:
                assert session.exec(select(Tag).where(Tag.name == f"t{number}")).first() is not None

        def fail(_connection) -> None:
            raise RuntimeError("the disk is gone")

        event.listen(db.engine, "commit", fail)
        try:
            answer = client.post("/api/v1/tags", json={"name": "lost"})
        finally:
            event.remove(db.engine, "commit", fail)
        assert answer.status_code == 500
        with db.read() as session:
            assert session.exec(select(Tag).where(Tag.name == "lost")).first() is None


def test_more_writers_than_threads_do_not_starve_each_other(live_app):
    """Each waiting writer holds a thread; if all were held, the one with the lock could not finish."""
    people = people_of(live_app)
    with (
        serving(live_app) as (url, _),
        httpx.Client(base_url=url, headers=people.reviewer.headers, timeout=60) as client,
    ):
        codes: list[int] = []

        def write(number: int) -> None:
            codes.append(client.post("/api/v1/tags", json={"name": f"w{number}"}).status_code)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert codes == [201] * 80


@pytest.mark.parametrize(
    "position", ["99999999999-1", "1-99999999999999999999", f"{'9' * 5000}-1", "\u00b2-1", "1", ""]
)
def test_a_position_that_no_log_gave_begins_anew(position):
    assert sse._log_position(position) == (0, 0)


def test_a_position_that_a_log_gave_goes_on_there():
    assert sse._log_position("12-345678") == (12, 345678)


def test_a_log_that_never_rests_is_told_once_a_tick_and_the_apps_closing_ends_it(monkeypatch):
    monkeypatch.setattr(sse, "EVERY_S", 0.01)
    closing = asyncio.Event()
    request = SimpleNamespace(headers={}, app=SimpleNamespace(state=SimpleNamespace(closing=closing)))
    ticks, reads = [], []
    beat = sse.ticks

    async def counted(request):
        async for _ in beat(request):
            ticks.append(len(reads))
            yield

    monkeypatch.setattr(sse, "ticks", counted)

    def read(_start: int, offset: int) -> News:
        reads.append(offset)
        assert len(reads) < 50, "it is read without a pause"
        if len(reads) == 3:
            closing.set()
        return News(1, Lines([LogLine(offset, offset + 5, "line", "info")], position=offset + 5))

    async def told() -> list[str]:
        return [event.raw_data or event.data async for event in sse.log_lines(request, read, "1-0")]

    assert asyncio.run(told())[1:] == ["line\n"] * 3
    assert (reads, ticks) == ([0, 5, 10], [0, 1, 2])
