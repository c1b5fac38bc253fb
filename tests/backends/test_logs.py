"""Logs as people see them: keys masked, bars resolved, control sequences gone, whatever the bytes."""

import time
from pathlib import Path

import pytest

from db.tables import BackendStart
from inference.backends.logs.reading import LogFollower, clean_line, last_lines, read_from, read_tail, redact
from inference.settings import Settings

KEY = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.fixture
def start(settings: Settings) -> BackendStart:
    path = settings.data_dir / "logs" / "backend-1" / "start-1.log"
    path.parent.mkdir(parents=True)
    path.touch()
    return BackendStart(backend_id=1, number=1, log_path=str(path))


def write(start: BackendStart, raw: bytes) -> None:
    with Path(start.log_path or "").open("ab") as file:
        file.write(raw)


@pytest.mark.parametrize(
    "line",
    [
        f"server_args={{'model_path': '/m', 'api_key': '{KEY}', 'admin_api_key': None}}",
        f"server_args=ServerArgs(model_path='/m', api_key='{KEY}')",
        f'{{"api_key": "{KEY}", "admin_api_key": "{KEY}"}}',
        f"python -m sglang.launch_server --api-key {KEY} --port 1",
        f"python -m sglang.launch_server --api-key={KEY}",
        f"['--admin-api-key', '{KEY}']",
        f"Authorization: Bearer {KEY}",
        f'api-key: "{KEY}"',
        f"API_KEY={KEY}",
    ],
)
def test_what_looks_like_a_key_is_masked_known_or_not(line: str) -> None:
    assert KEY not in redact(line)
    assert "***" in redact(line)


def test_a_known_key_is_masked_wherever_it_stands_and_nothing_else_is() -> None:
    assert redact(f"http://x/?q={KEY}&b=1", (KEY,)) == "http://x/?q=***&b=1"
    plain = "'api_key': None, 'admin_api_key': None, 'key': 1"
    assert redact(plain) == plain


def test_the_tail_is_clean(settings: Settings, start: BackendStart) -> None:
    write(start, b"old\n\x1b[31mred\x1b[0m\x07\n")
    write(start, b"load:   0%| 0/2\rload:  50%| 1/2\rload: 100%| 2/2\n")
    write(start, b"broken \xff\xfe utf-8\n" + f"'api_key': '{KEY}'".encode())
    assert read_tail(settings, start, 4).split("\n") == [
        "red",
        "load: 100%| 2/2",
        "broken \ufffd\ufffd utf-8",
        "'api_key': '***'",
    ]
    assert read_tail(settings, start, 1) == "'api_key': '***'"
    assert read_tail(settings, None, 9) == ""


def test_the_tail_of_a_huge_log_is_bounded(settings: Settings, start: BackendStart) -> None:
    write(start, b"x" * 100 + b"\n")
    write(start, b"y" * 30_000_000 + b"\nlast\n")
    tail = read_tail(settings, start, 10)
    assert tail.endswith("last")
    assert len(tail) < 10_000


def test_following_takes_whole_lines_and_resumes_where_it_was(settings: Settings, start: BackendStart) -> None:
    write(start, b"one\ntwo\nthr")
    text, offset = read_from(settings, start, 0)
    assert (text, offset) == ("one\ntwo\n", 8)
    assert read_from(settings, start, offset) == ("", 8)
    write(start, b"ee\n")
    assert read_from(settings, start, offset) == ("three\n", 14)
    assert read_from(settings, start, 10**9)[0] == "one\ntwo\nthree\n", "the file was replaced: from its beginning"
    assert read_from(settings, start, -5)[1] == 14


def test_a_line_longer_than_the_limit_does_not_stop_the_follower(settings: Settings, start: BackendStart) -> None:
    write(start, b"z" * 1000 + b"\nend\n")
    text, offset, taken = "", 0, -1
    while taken != offset:
        taken = offset
        part, offset = read_from(settings, start, offset, limit=64)
        text += part
    assert text.count("z") == 1000
    assert text.endswith("end\n")


def test_a_log_outside_the_data_directory_is_not_read(settings: Settings, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    link = settings.data_dir / "logs"
    link.mkdir()
    (link / "x.log").symlink_to(secret)
    assert read_tail(settings, BackendStart(backend_id=1, number=1, log_path=str(secret))) == ""
    assert read_tail(settings, BackendStart(backend_id=1, number=1, log_path=str(link / "x.log"))) == ""


def test_the_machines_follower_sees_every_state_of_a_bar_and_half_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = LogFollower(path)
    assert list(follower.read()) == []
    path.write_bytes(b"a\nb 0%\rb 50%\rb 1")
    assert list(follower.read()) == ["a", "b 0%", "b 50%"]
    with path.open("ab") as file:
        file.write(b"00%\n")
    assert list(follower.read()) == ["b 100%"]


def test_the_follower_takes_a_flood_in_bounded_bites(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789\n" * 500_000)
    follower = LogFollower(path)
    first = sum(1 for _ in follower.read())
    assert 0 < first < 500_000
    total, deadline = first, time.monotonic() + 60
    while total < 500_000 and time.monotonic() < deadline:
        total += sum(1 for _ in follower.read())
    assert total == 500_000


def test_a_line_shown_is_bounded_and_empty_bars_vanish() -> None:
    assert len(clean_line("x" * 100_000)) < 5_000
    assert clean_line("\r\r") == ""
    assert clean_line("a\rb\r") == "b"


def test_lines_for_a_diagnosis_are_the_last_ones_that_say_something(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n\n\ntwo\n \nthree\n")
    assert last_lines(path, 2) == ["two", "three"]
    assert last_lines(tmp_path / "none", 2) == []
