"""A log stays within its size while a server writes and readers follow; old logs go, those of living starts never."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference.backends.logs import capping
from inference.backends.logs.capping import COPIED, cap
from inference.backends.logs.extents import extents
from inference.backends.logs.following import LogFollower
from inference.backends.logs.keeping import drop_folder, log_folder, prune
from inference.settings import Settings

MIB = 1024 * 1024
SLACK = 256 * 1024
"""What a file system may round up to, for a few extents."""


def blocks(path: Path) -> int:
    return path.stat().st_blocks * 512


def line(number: int) -> bytes:
    return b"[2026-11-30 07:03:24] line %09d %s\n" % (number, b"x" * 60)


class Server:
    """Writes as a server does: appending, through a descriptor of its own."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("ab", buffering=0)
        self.number = 0

    def write(self, count: int) -> None:
        self.file.write(b"".join(line(self.number + step) for step in range(count)))
        self.number += count


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "log")
    yield made
    made.file.close()


def no_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capping, "punch", lambda *_: False)


def no_sparse_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that writes every NUL: extending a file costs what it says."""
    no_holes(monkeypatch)
    truncate = os.ftruncate

    def dense(descriptor: int, size: int) -> None:
        truncate(descriptor, size)
        if size:
            os.pwrite(descriptor, bytes(size), 0)

    monkeypatch.setattr(capping.os, "ftruncate", dense)


def test_a_flood_stays_within_the_cap_while_it_is_followed_and_its_beginning_and_its_newest_are_kept(
    tmp_path: Path, server: Server
) -> None:
    path, limit = tmp_path / "log", 8 * MIB
    follower, seen, highest = LogFollower(path), [], 0
    while path.stat().st_size < 200 * MIB:
        server.write(20_000)
        size = path.stat().st_size
        cap(path, limit)
        assert path.stat().st_size == size, "byte offsets stay valid"
        highest = max(highest, blocks(path))
        seen += [int(text.split()[3]) for text in follower.read() if text.startswith("[2026")]
    assert highest <= limit + SLACK
    assert seen == sorted(set(seen)), "no line twice, none out of order"
    assert seen[0] == 0
    follow_to_the_end(follower, seen)
    assert seen[-1] == server.number - 1
    raw = path.read_bytes()
    assert raw.startswith(line(0) + line(1))
    assert raw.endswith(line(server.number - 1))
    kept = raw.replace(b"\0", b"")
    assert set(kept.split(b"\n")[:-1]) <= {b"", *(line(number)[:-1] for number in range(server.number))}, (
        "lines are whole"
    )


def follow_to_the_end(follower: LogFollower, seen: list[int]) -> None:
    before = -1
    while before != follower.offset:
        before = follower.offset
        seen += [int(text.split()[3]) for text in follower.read() if text.startswith("[2026")]


def test_a_small_log_is_left_alone_and_one_that_is_not_there_is_no_error(tmp_path: Path, server: Server) -> None:
    server.write(100)
    assert cap(tmp_path / "log", MIB) == 0
    assert cap(tmp_path / "none", MIB) == 0
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "log")
    assert cap(link, 0) == 0, "what a link points to is not ours to shorten"


def test_what_is_given_back_is_said_and_asking_again_gives_nothing_back(tmp_path: Path, server: Server) -> None:
    path = tmp_path / "log"
    server.write(100_000)
    before = blocks(path)
    freed = cap(path, 4 * MIB)
    assert freed == before - blocks(path) > 0
    assert blocks(path) <= 4 * MIB
    assert cap(path, 4 * MIB) == 0


@pytest.mark.parametrize("poor", [no_holes, no_sparse_files])
def test_where_no_hole_can_be_made_the_log_is_copied_and_says_so(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, poor: Callable[[pytest.MonkeyPatch], None]
) -> None:
    poor(monkeypatch)
    path = tmp_path / "log"
    follower, seen = LogFollower(path), list[int]()
    for _ in range(12):
        server.write(10_000)
        follow_to_the_end(follower, seen)
        cap(path, 4 * MIB)
        assert blocks(path) <= 4 * MIB + SLACK
        server.write(10)
    follow_to_the_end(follower, seen)
    assert seen == sorted(set(seen)), "nothing is read twice"
    if poor is no_holes:
        assert seen == list(range(server.number)), "offsets stayed valid: nothing was missed"
    raw = path.read_bytes()
    assert raw.startswith(line(0))
    assert COPIED in raw
    assert raw.endswith(line(server.number - 1))


def test_a_log_that_is_being_read_is_not_rewritten_under_the_reader(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_holes(monkeypatch)
    path = tmp_path / "log"
    server.write(100_000)
    follower = LogFollower(path)
    half = follower.read()
    next(half)
    assert cap(path, 4 * MIB) == 0
    half.close()
    assert cap(path, 4 * MIB) > 0


def test_the_kernel_says_which_file_system_cannot_and_a_broken_disk_is_an_error(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.write(1000)

    class Libc:
        def __init__(self, number: int) -> None:
            self.number = number

        def fallocate(self, *_: object) -> int:
            return -1

    for number, outcome in ((errno.EOPNOTSUPP, False), (errno.ENOSYS, False)):
        monkeypatch.setattr(capping.ctypes, "CDLL", lambda *_, **__: Libc(0))
        monkeypatch.setattr(capping.ctypes, "get_errno", lambda number=number: number)
        assert capping.punch(server.file.fileno(), 0, 4096) is outcome
    monkeypatch.setattr(capping.ctypes, "get_errno", lambda: errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        capping.punch(server.file.fileno(), 0, 4096)
    monkeypatch.setattr(capping.ctypes, "CDLL", lambda *_, **__: object())
    assert capping.punch(server.file.fileno(), 0, 4096) is False


def test_a_line_without_end_is_cut_and_the_follower_drops_its_remains(tmp_path: Path, server: Server) -> None:
    path = tmp_path / "log"
    server.write(10)
    server.file.write(b"y" * (20 * MIB))
    assert cap(path, 4 * MIB) > 0
    server.file.write(b" the end of it\n")
    server.write(1)
    follower = LogFollower(path)
    lines = [text for _ in range(10) for text in follower.read()]
    assert [text[:5] for text in lines] == ["[2026"] * 11


def test_nothing_is_lost_that_is_written_while_the_log_is_shortened(tmp_path: Path, server: Server) -> None:
    path = tmp_path / "log"
    done = threading.Event()

    def shorten() -> None:
        while not done.is_set():
            cap(path, 2 * MIB)

    thread = threading.Thread(target=shorten)
    thread.start()
    try:
        for _ in range(300):
            server.write(500)
    finally:
        done.set()
        thread.join()
    sent = sum(len(line(0)) for _ in range(server.number))
    assert path.stat().st_size == sent
    newest = path.read_bytes()[-len(line(0)) * 5000 :]
    assert newest == b"".join(line(number) for number in range(server.number - 5000, server.number))


def test_data_is_told_from_holes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"a" * 8192)
        file.truncate(10 * MIB)
        file.seek(10 * MIB)
        file.write(b"b")
    with path.open("rb") as file:
        found = list(extents(file.fileno(), 0, path.stat().st_size))
        assert (found[0][0], found[-1][1]) == (0, 10 * MIB + 1)
        assert sum(end - begin for begin, end in found) < MIB
        assert list(extents(file.fileno(), MIB, 2 * MIB)) == []


def make_starts(folder: Path, *numbers: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"start-{number}.log").write_text("x")
        (folder / f"start-{number}.yaml").write_text("x")


def test_the_last_logs_are_kept_and_those_of_living_starts_always(tmp_path: Path) -> None:
    folder = tmp_path / "backend-1"
    make_starts(folder, *range(1, 13))
    (folder / "notes.txt").write_text("a person's own")
    (folder / "start-99.log.bak").write_text("not a log of ours")
    living = folder / "start-2.log"
    removed = prune(folder, 3, [living])
    assert sorted(path.name for path in removed) == sorted(f"start-{number}.log" for number in (1, 3, 4, 5, 6, 7, 8, 9))
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [f"start-{number}.{kind}" for number in (2, 10, 11, 12) for kind in ("log", "yaml")]
        + ["notes.txt", "start-99.log.bak"]
    )
    assert prune(folder, 3, [living]) == []
    assert len(prune(folder, 0, [])) == 4
    assert prune(tmp_path / "none", 3, []) == []


def test_the_logs_of_a_deleted_backend_go_and_no_others(settings: Settings, tmp_path: Path) -> None:
    one, two = log_folder(settings, 1), log_folder(settings, 12)
    make_starts(one, 1, 2)
    make_starts(two, 1)
    drop_folder(settings, 1)
    drop_folder(settings, 1)
    assert (one.exists(), two.exists()) == (False, True)
    elsewhere = tmp_path / "elsewhere"
    make_starts(elsewhere, 1)
    one.symlink_to(elsewhere)
    drop_folder(settings, 1)
    assert (elsewhere / "start-1.log").exists()
