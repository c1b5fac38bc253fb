"""A server's starts and their logs by REST: text or lines, searched, downloaded, and streamed to the slow without harm."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api import sse
from db.tables import Backend, BackendStart
from tests.api.conftest import own_settings, people_of, running_app
from tests.api.server import serving
from tests.api.test_streams import events

KEY = "0f1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778"
LINE = "[2026-11-30 07:03:24] Decode batch, #running-req: 1, #token: {}, gen throughput (token/s): 16.17\n"


class Served:
    def __init__(self, app) -> None:
        self.app = app
        ctx = app.state.context
        with ctx.db.write() as session:
            backend = Backend(name="b", kind="managed", api_key=KEY)
            session.add(backend)
            session.flush()
            self.backend_id, self.starts, self.paths = backend.id, [], []
            for number in (1, 2):
                path = ctx.settings.data_dir / "logs" / f"backend-{backend.id}" / f"start-{number}.log"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"line of start {number}\n")
                phases = [{"name": "loading weights", "at": "2026-11-30T07:03:24Z", "done": 1, "total": 2}]
                error = {"code": "killed", "summary": "It was killed.", "cure": "See dmesg.", "lines": ["x"]}
                row = BackendStart(
                    backend_id=backend.id, number=number, log_path=str(path), port=30000 + number, phases=phases,
                    exit_code=-9 if number == 1 else None, error=error if number == 1 else None,
                )  # fmt: skip
                session.add(row)
                session.flush()
                self.starts.append(row.id)
                self.paths.append(path)
                backend.start_id = row.id
        self.people = people_of(app)
        self.base = f"/api/v1/backends/{self.backend_id}"

    @property
    def log(self) -> Path:
        return self.paths[-1]


@pytest.fixture
def served(tmp_path) -> Iterator[tuple[Served, httpx.Client]]:
    for app in running_app(own_settings(tmp_path)):
        made = Served(app)
        with (
            serving(app) as (url, _),
            httpx.Client(base_url=url, headers=made.people.reviewer.headers, timeout=60) as client,
        ):
            yield made, client


def test_lines_are_told_with_level_count_and_where_to_go_on(served):
    made, client = served
    made.log.write_text("one\n" + "[2026-11-30 07:03:24] same\n" * 3 + "ValueError: bad\n" + f"q={KEY}\nhalf")
    answer = client.get(f"{made.base}/logs", headers={"Accept": "application/json"}).json()
    assert answer["start"] == 2
    assert answer["position"] == f"{made.starts[1]}-{made.log.stat().st_size - 4}"
    assert [(line["text"], line["count"], line["level"]) for line in answer["lines"]] == [
        ("one", 1, "info"), ("[2026-11-30 07:03:24] same", 3, "info"), ("ValueError: bad", 1, "error"), ("q=***", 1, "error"),
        ("half", 1, "error"),
    ]  # fmt: skip
    assert answer["lines"][1]["at"] == "2026-11-30T07:03:24"
    text = client.get(f"{made.base}/logs", params={"tail": 4})
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.split("\n")[0] == "[2026-11-30 07:03:24] same  (× 3, until 07:03:24)"
    assert text.headers["x-log-before"] == "4"


def test_a_search_and_a_level_choose_and_before_goes_on(served):
    made, client = served
    made.log.write_text(
        "".join(f"needle {number}\nhay\n" for number in range(30)) + "[2026-11-30 07:03:24] ERROR: needle\n"
    )
    ask = {"q": "NEEDLE", "tail": 20}
    first = client.get(f"{made.base}/logs", params=ask)
    assert first.text.split("\n")[0] == "needle 11"
    second = client.get(f"{made.base}/logs", params={**ask, "before": first.headers["x-log-before"]})
    assert second.text.split("\n") == [f"needle {number}" for number in range(11)]
    assert "x-log-before" not in second.headers
    assert client.get(f"{made.base}/logs", params={"level": "error"}).text == "[2026-11-30 07:03:24] ERROR: needle"
    for bad in ({"level": "fatal"}, {"q": "x" * 300}, {"tail": 0}, {"start": "x"}, {"before": -1}):
        assert client.get(f"{made.base}/logs", params=bad).status_code == 422


def test_every_start_is_listed_and_its_log_read_by_number(served):
    made, client = served
    page = client.get(f"{made.base}/starts", params={"limit": 1}).json()
    assert [(item["number"], item["port"], item["exit_code"]) for item in page["items"]] == [(2, 30002, None)]
    (item,) = client.get(f"{made.base}/starts", params={"after": page["next"]}).json()["items"]
    assert (item["number"], item["exit_code"], item["error"]["code"]) == (1, -9, "killed")
    assert item["phases"][0]["name"] == "loading weights"
    assert item["log_bytes"] == len("line of start 1\n")
    assert client.get(f"{made.base}/logs", params={"start": 1}).text == "line of start 1"
    made.paths[0].unlink()
    listed = client.get(f"{made.base}/starts").json()["items"]
    assert [item["log_bytes"] for item in listed] == [len("line of start 2\n"), None]
    assert client.get(f"{made.base}/logs", params={"start": 1}).text == ""
    for path in ("logs?start=7", "logs/download?start=7", "logs/download?start=1"):
        answer = client.get(f"{made.base}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "backend b" in answer.json()["detail"]
    assert client.get("/api/v1/backends/99/starts").status_code == 404


def test_the_whole_log_is_a_file_without_keys(served):
    made, client = served
    made.log.write_text("same\n" * 50_000 + f"api_key='other'\nq={KEY}\n")
    answer = client.get(f"{made.base}/logs/download")
    assert answer.headers["content-disposition"] == f'attachment; filename="backend-{made.backend_id}-start-2.log"'
    assert answer.text == "same\n" * 50_000 + "api_key='***'\nq=***\n"


def test_lines_are_streamed_with_the_state_of_an_unfinished_bar(served):
    made, client = served
    made.log.write_text("x\nx\n[2026-11-30 07:03:24] y\nbar 1%\rbar 2%")
    with client.stream(
        "GET", f"{made.base}/logs/stream", params={"form": "lines", "from": f"{made.starts[1]}-0"}
    ) as answer:
        told = answer.iter_lines()
        first, second = events(told, 2)
        assert [(line["text"], line["count"]) for line in json.loads(first["data"])] == [
            ("x", 2), ("[2026-11-30 07:03:24] y", 1)
        ]  # fmt: skip
        assert first["id"] == f"{made.starts[1]}-28"
        assert (second["event"], json.loads(second["data"]), "id" in second) == ("unfinished", "bar 2%", False)
        with made.log.open("a") as file:
            file.write("\rbar 3%\n")
        (third,) = events(told, 1)
        assert [line["text"] for line in json.loads(third["data"])] == ["bar 3%"]


def test_a_browser_that_does_not_read_is_led_to_the_end_and_costs_nobody_anything(served, monkeypatch):
    monkeypatch.setattr(sse, "EVERY_S", 0.05)
    made, client = served
    with socket.create_connection((client.base_url.host, client.base_url.port)) as slow:
        token = made.people.reviewer.headers["Authorization"]
        slow.sendall(
            f"GET {made.base}/logs/stream HTTP/1.1\r\nHost: {client.base_url.host}\r\nAuthorization: {token}\r\n\r\n".encode()
        )
        number = 0
        with made.log.open("a") as file:
            for _ in range(40):  # far more than all buffers between hold
                file.writelines(LINE.format(number + step) for step in range(10_000))
                file.flush()
                number += 10_000
                assert client.get(f"{made.base}/logs", params={"tail": 1}).text.endswith("16.17"), "others are served"
        slow.settimeout(60)
        got, newest = bytearray(), f"#token: {number - 1},".encode()
        while newest not in got[-200_000:]:
            part = slow.recv(1_000_000)
            assert part, "the stream ended"
            got += part
    size = made.log.stat().st_size
    assert len(got) < size / 2
    told = [
        json.loads(line.partition(": ")[2]) for line in got.decode().splitlines() if line.startswith('data: {"bytes"')
    ]
    assert told
    assert sum(item["bytes"] for item in told) > size / 2
