"""Logs as people see them: keys masked, bars resolved, control sequences gone, whatever the bytes."""

import os
import time
from pathlib import Path

import pytest

from db.tables import BackendStart
from inference.backends.logs.folding import LogLine, clean, shorten
from inference.backends.logs.following import LogFollower
from inference.backends.logs.reading import last_lines, log_file, read_on, read_tail, whole
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


def text_from(settings: Settings, start: BackendStart, offset: int, limit: int = 65_536) -> tuple[str, int]:
    """What a follower is given, as text, and where it goes on."""
    found = read_on(log_file(settings, start), offset, limit=limit)
    return "".join(f"{line}\n" for line in found.lines), found.position


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
    text, offset = text_from(settings, start, 0)
    assert (text, offset) == ("one\ntwo\n", 8)
    assert text_from(settings, start, offset) == ("", 8)
    write(start, b"ee\n")
    assert text_from(settings, start, offset) == ("three\n", 14)
    assert text_from(settings, start, 10**9) == ("", 14), "a log that became shorter: on at its end"


def test_what_is_not_finished_is_told_apart_and_a_bar_at_its_last_state(
    settings: Settings, start: BackendStart
) -> None:
    write(start, b"one\nshards:   0%| 0/2\rshards:  50%| 1/2")
    found = read_on(log_file(settings, start), 0)
    assert [line.text for line in found.lines] == ["one"]
    assert (found.position, found.unfinished) == (4, "shards:  50%| 1/2")


def test_reading_that_begins_inside_a_line_begins_with_the_next(settings: Settings, start: BackendStart) -> None:
    write(start, b"first line\nsecond\n")
    assert text_from(settings, start, 4) == ("second\n", 18)
    assert text_from(settings, start, 10) == ("second\n", 18)
    assert text_from(settings, start, 11) == ("second\n", 18)
    assert text_from(settings, start, 12) == ("", 18)


def test_a_line_longer_than_the_limit_does_not_stop_the_follower(settings: Settings, start: BackendStart) -> None:
    write(start, b"z" * 500_000 + b"\nnext\n")
    text, offset = text_from(settings, start, 0, 64)
    assert text == "z" * 4000 + " … (496,000 characters more)\n"
    text, offset = text_from(settings, start, offset, 64)
    assert (text, offset) == ("next\n", 500_006)
    write(start, b"y" * 600_000)
    text, offset = text_from(settings, start, offset, 10**6)
    assert text == "y" * 4000 + " … (many characters more)\n", "it grows without end: its beginning is told, once"
    write(start, b"y" * 600_000)
    again, offset = text_from(settings, start, offset)
    assert again == ""
    write(start, b" its end\nend\n")
    assert text_from(settings, start, offset)[0] == "end\n"


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
    assert follower.drawn == "b 1"
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
    assert len(shorten("x" * 100_000)) < 5_000
    assert shorten("x" * 4000) == "x" * 4000
    assert clean(b"\r\r") == ""
    assert clean(b"a\rb\r") == "b"


def test_a_search_shows_of_a_long_line_what_is_around_the_find() -> None:
    shown = shorten("x" * 8000 + "needle" + "y" * 8000, "NEEDLE")
    assert shown.startswith("(7,800 characters before) … x")
    assert "needle" in shown
    assert shown.endswith(" … (4,206 characters more)")
    assert shorten("needle" + "y" * 8000, "needle").startswith("needle")


def test_a_bar_that_is_drawn_for_hours_is_shown_at_its_last_state(settings: Settings, start: BackendStart) -> None:
    bar = b"".join(b"download: %9d/200000 %s\r" % (number, b"#" * 60) for number in range(40_000))
    write(start, b"before\n" + bar + b"download: done\nafter\n")
    assert read_tail(settings, start, 9) == "before\ndownload: done\nafter"


def test_the_whole_log_is_neither_folded_nor_cut(settings: Settings, start: BackendStart) -> None:
    raw = b"same\n" * 300_000 + b"x" * 9000 + b"\n\x1b[31mred\x1b[0m\n" + f"api_key={KEY}\nlast".encode()
    write(start, raw)
    path = log_file(settings, start)
    assert path is not None
    text = "".join(whole(path))
    assert text == "same\n" * 300_000 + "x" * 9000 + "\nred\napi_key=***\nlast"
    assert max(map(len, whole(path))) < 2_000_000


def test_a_line_and_its_count_are_told_in_words() -> None:
    line = LogLine(
        0, 10, "[2026-11-30 07:03:24] same", "info", "", 200_000, "2026-11-30T07:03:24", "2026-11-30T07:09:59"
    )
    assert str(line) == "[2026-11-30 07:03:24] same  (× 200,000, until 07:09:59)"


def test_lines_for_a_diagnosis_are_the_last_ones_that_say_something(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n\n\ntwo\n \nthree\n")
    assert last_lines(path, 2) == ["two", "three"]
    assert last_lines(tmp_path / "none", 2) == []


def test_what_stands_in_a_logs_place_and_is_no_file_is_not_read(tmp_path: Path) -> None:
    pipe, link, aim = tmp_path / "pipe.log", tmp_path / "link.log", tmp_path / "aim"
    os.mkfifo(pipe)
    aim.write_text("not a log\n")
    link.symlink_to(aim)
    assert list(LogFollower(pipe).read()) == []  # opened, it would wait for a writer for ever
    assert list(LogFollower(link).read()) == []
