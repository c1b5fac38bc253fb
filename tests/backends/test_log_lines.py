"""Lines are folded, graded and searched in bounded memory: floods, broken bytes, bars, endless lines and holes alike."""

import shutil
import tracemalloc
from pathlib import Path

import pytest

from inference.backends.logs import reading
from inference.backends.logs.capping import cap
from inference.backends.logs.folding import LogLine, Wanted, left_out
from inference.backends.logs.levels import ERROR, FIGURES, HEALTH_CHECK, HINTS, INFO, WARNING, Levels
from inference.backends.logs.reading import Lines, read_back, read_on, whole

MIB = 1024 * 1024
RECORDED = Path(__file__).parent / "recorded"
SAME = b"[2026-11-30 07:03:%02d] KV cache pool is full. Retract requests. #retracted_reqs: 2\n"
BATCH = b"[2026-11-30 07:03:24] Decode batch, #running-req: 1, #token: %d, gen throughput (token/s): 16.17\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def texts(found: Lines) -> list[str]:
    return [line.text for line in found.lines]


def flood(path: Path, count: int = 200_000) -> None:
    with path.open("wb") as file:
        file.write(b"".join(b"line %d\n" % number for number in range(300)))
        file.writelines(SAME % (number * 60 // count) for number in range(count))
        file.write(b"after\n")


def the_fold(lines: list[LogLine]) -> LogLine:
    (found,) = [line for line in lines if line.count > 1]
    return found


def test_a_flood_of_equal_lines_is_one_with_its_count_and_times_and_the_tail_looks_past_it(path: Path) -> None:
    flood(path)
    found = read_back(path, 200)
    assert texts(found)[:2] == ["line 102", "line 103"]
    assert texts(found)[-1] == "after"
    fold = the_fold(found.lines)
    assert (fold.count, fold.at, fold.until) == (200_000, "2026-11-30T07:03:00", "2026-11-30T07:03:59")
    assert len(found.lines) == 200
    older = read_back(path, 200, before=found.before)
    assert texts(older) == [f"line {number}" for number in range(102)]
    assert older.before is None


def test_a_search_folds_a_flood_too_also_where_other_lines_lie_between(path: Path) -> None:
    flood(path)
    assert the_fold(read_back(path, 50, wanted=Wanted("retract REQUESTS")).lines).count == 200_000
    with path.open("wb") as file:
        file.writelines(BATCH % number + SAME % 0 for number in range(30_000))
    (fold,) = read_back(path, 50, wanted=Wanted("retract")).lines
    assert fold.count == 30_000


def test_a_stream_folds_a_flood_within_what_it_gives_at_once(path: Path) -> None:
    flood(path, 8_000)
    lines, offset = list[LogLine](), 0
    while (found := read_on(path, offset, limit=256 * 1024)).lines:
        lines += found.lines
        offset = found.position
    assert sum(line.count for line in lines) == 8_301
    assert len(lines) < 310


def test_different_times_alone_fold_and_different_ranks_do_not(path: Path) -> None:
    path.write_bytes(
        b"[2026-11-30 07:03:24 TP0] x\n[2026-11-30 07:03:25 TP0] x\n[2026-11-30 07:03:25 TP1] x\nx\nx\n\n\n"
    )
    assert [(line.text[-6:], line.count) for line in read_back(path, 9).lines] == [
        ("TP0] x", 2), ("TP1] x", 1), ("x", 2), ("", 2)
    ]  # fmt: skip


def test_a_search_walks_a_large_log_page_by_page_and_misses_nothing(path: Path) -> None:
    with path.open("wb") as file:
        for number in range(100_000):
            file.write(BATCH % number if number % 97 else b"[2026-11-30 07:03:24] needle %d\n" % number)
    found, before = list[str](), None
    while True:
        page = read_back(path, 100, wanted=Wanted("NEEDLE"), before=before)
        assert len(page.lines) <= 100
        found = texts(page) + found
        before = page.before
        if before is None:
            break
    assert [int(text.split()[-1]) for text in found] == list(range(0, 100_000, 97))


def test_a_search_through_a_whole_large_log_is_bounded_in_memory(path: Path) -> None:
    block = b"".join(BATCH % number for number in range(10_000))
    with path.open("wb") as file:
        file.write(b"[2026-11-30 07:03:24] the needle at the very beginning\n")
        while file.tell() < 64 * MIB:
            file.write(block)
    tracemalloc.start()
    try:
        found = read_back(path, 10, wanted=Wanted("needle"))
        none = read_back(path, 10, wanted=Wanted("", ERROR))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert texts(found) == ["[2026-11-30 07:03:24] the needle at the very beginning"], "in one call"
    assert (none.lines, none.before) == ([], None)
    assert peak < 24 * MIB


def test_a_search_that_cannot_pass_anything_over_stops_and_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOOK_BACK", MIB)
    path.write_bytes(b"api_key=first\n" + b"".join(BATCH % number for number in range(40_000)))
    found, calls, before = list[str](), 0, None
    while calls == 0 or before is not None:
        page = read_back(path, 10, wanted=Wanted("*"), before=before)
        before, calls, found = page.before, calls + 1, found + texts(page)
    assert found == ["api_key=***"]
    assert calls > 1


def test_a_search_in_other_letters_passes_over_what_does_not_hold_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LOOK_BACK", MIB)
    path.write_bytes("Straße 東京\n".encode() + b"".join(BATCH % number for number in range(40_000)))
    for asked in ("東京", "straSSE 東"):
        assert texts(read_back(path, 10, wanted=Wanted(asked))) == ["Straße 東京"], "in one call"


def test_what_capping_left_out_is_said_in_every_view_and_in_no_search(path: Path) -> None:
    with path.open("ab") as file:
        file.writelines(BATCH % number for number in range(400_000))
    size = path.stat().st_size
    cap(path, 8 * MIB)
    found = read_back(path, 400_000)
    (gap,) = [line for line in found.lines if line.note == "left out"]
    assert gap.text == left_out(gap.end - gap.offset)
    assert gap.text.endswith("MiB left out here …")
    shown = [line for line in found.lines if line is not gap]
    told = sum(line.end - line.offset for line in [*shown, gap])
    assert size - 8192 < told <= size, "but for what a block of the disk rounds up"
    assert gap.text in "".join(whole(path)).split("\n")
    assert read_back(path, 5, wanted=Wanted("left out")).lines == []
    at = gap.offset - 500
    through = read_on(path, max(0, at), limit=size)
    assert through.skipped > 0 or gap.text in texts(through)


def test_a_reader_far_behind_is_led_to_the_end_and_told_how_much_it_missed(path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(BATCH % number for number in range(30_000))
    size = path.stat().st_size
    found = read_on(path, 100)
    assert found.skipped == found.lines[0].offset - 100 > size - 100 - 300_000
    last = found
    while (more := read_on(path, last.position)).lines:
        assert more.skipped == 0
        last = more
    assert last.lines[-1].text == (BATCH % 29_999).decode().strip()


def test_broken_bytes_nuls_bars_and_control_sequences_are_no_obstacle(path: Path) -> None:
    path.write_bytes(
        b"broken \xff\xfe utf-8 \xe6\xbc\n\x1b[1;31mred\x1b[0m \x1b]0;title\x07bell\x07\nnul\0in it\n\x9b31mc1\n"
        b"bar 0%\rbar 50%\rbar 100%\r\n" + b"\0" * 5000 + b"rest of a cut line\nlast"
    )
    found = read_back(path, 20)
    assert texts(found) == [
        "broken \ufffd\ufffd utf-8 \ufffd", "red bell", "nulin it", "\ufffd31mc1", "bar 100%", "… 4 KiB left out here …", "last"
    ]  # fmt: skip
    assert found.position == path.stat().st_size - 4, "what has no end yet stands after the position"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("[2026-11-30 07:03:24] INFO:     Application startup complete.", INFO),
        ("[2026-11-30 07:08:44] ERROR:    [Errno 98] error while attempting to bind on address", ERROR),
        ("[2026-11-30 07:08:44] WARNING:  Invalid HTTP request received.", WARNING),
        ("x.py:53: UserWarning: Only CUDA supports it", WARNING),
        ("[2026-11-30 07:08:44 TP1] Scheduler hit an exception: Traceback (most recent call last):", ERROR),
        ("[2026-11-30 07:08:44] KV cache pool is full. Retract requests. #retracted_reqs: 2", WARNING),
        ("[2026-11-30 07:08:44] Ignore import error when loading sglang.srt.models.qwen4: no attribute", INFO),
        ("[2026-11-30 07:08:44] server_args={'watchdog_timeout': 300, 'log_requests': 'Error:'}", INFO),
        ("sglang serve: error: unrecognized arguments: --no-such-flag", ERROR),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", ERROR),
        ("[2026-11-30 07:08:44] [http_server] Error: The input is longer than the model's context", WARNING),
        ('[2026-11-30 07:08:44] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 500 Internal Server Error', ERROR),
        ('[2026-11-30 07:08:44] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 503 Service Unavailable', WARNING),
        ('[2026-11-30 07:08:44] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 400 Bad Request', WARNING),
        ("[2026-11-30 07:08:44] kill_process_tree called: parent_pid=1, include_parent=True, pid=1", INFO),
    ],
)
def test_how_grave_a_line_is_is_told_from_what_it_says(line: str, level: str) -> None:
    assert Levels().feed(line)[0] == level


def test_a_traceback_is_an_error_to_its_end_and_no_further() -> None:
    levels = Levels()
    said = (
        "[2026-11-30 07:08:44] Scheduler hit an exception: Traceback (most recent call last):", '  File "x.py", line 1',
        "    raise ValueError(", "ValueError: first", "", "During handling of the above exception, another occurred:", "",
        "Traceback (most recent call last):", "OSError: no connection", "Check your internet connection.", "",
    )  # fmt: skip
    assert [levels.feed(line)[0] for line in said if line] == [ERROR] * 8
    assert levels.feed("")[0] == ERROR or levels.feed("a plain line")[0] == INFO
    assert levels.feed("[2026-11-30 07:08:45] Load weight begin.")[0] == INFO
    assert levels.feed("  indented but plain")[0] == INFO


def test_a_health_check_and_our_own_are_named_and_traffic_is_not() -> None:
    levels, time = Levels(), "[2026-11-30 07:03:23] "
    check = f"{time}Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0"
    work = f"{time}Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, #running-req: 0"
    generate = f'{time}INFO:     127.0.0.1:47740 - "POST /generate HTTP/1.1" 200 OK'
    notes = [
        levels.feed(line)[1]
        for line in (
            check, f'{time}INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', generate, check, generate, generate, work,
            generate, f'{time}INFO:     127.0.0.1:1 - "GET /ready HTTP/1.1" 503 Service Unavailable',
            f'{time}INFO:     127.0.0.1:1 - "GET /v1/loads?include=core HTTP/1.1" 200 OK', check, work, generate,
        )
    ]  # fmt: skip
    assert notes == [
        HEALTH_CHECK, HEALTH_CHECK, "", HEALTH_CHECK, HEALTH_CHECK, "", "", "", HEALTH_CHECK, FIGURES, HEALTH_CHECK, "", "",
    ]  # fmt: skip


LOGS = sorted(RECORDED.glob("*.log"))


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_search_by_level_finds_in_a_real_log_what_reading_it_all_finds(log: Path, path: Path) -> None:
    shutil.copy(log, path)
    with path.open("ab") as file:  # stretches that hold nothing, so that they are passed over
        file.write(b"\n")
        file.writelines(BATCH % number for number in range(12_000))
        file.write(b"[2026-11-30 07:03:24] Scheduler hit an exception: Traceback (most recent call last):\n")
        file.writelines(BATCH % number for number in range(12_000))
    everything = read_back(path, 100_000).lines
    for level, graver in ((WARNING, {WARNING, ERROR}), (ERROR, {ERROR})):
        wanted = [line.text for line in everything if line.level in graver]
        found = texts(read_back(path, 100_000, wanted=Wanted("", level)))
        assert set(found) == set(wanted)
        assert len(wanted) >= 1


def test_recorded_logs_are_there() -> None:
    assert len(LOGS) > 10
    assert len(HINTS) == len(set(HINTS))
