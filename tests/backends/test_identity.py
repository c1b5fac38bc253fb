"""Who is who among processes: markers that name a start and its data directory, and the machine that pids belong to."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.backends.host.identity import (
    START_VARIABLE,
    Marker,
    instance_of,
    machine,
    marked,
    new_marker,
    read_marker,
    shares_folder,
)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with a marker of `tmp_path`, which has become what it was started as."""
    env = {**os.environ, START_VARIABLE: new_marker(tmp_path, 3, 1)}
    code = "import time; print(flush=True); time.sleep(120)"
    child = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.kill()
    child.wait(10)
    child.stdout.close()


def test_a_marker_names_the_data_directory_by_its_place(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    marker = new_marker(first, 12, 7)
    assert read_marker(marker) == Marker(instance_of(first), 12, 7)
    first.rmdir()
    first.mkdir()
    assert instance_of(first) == instance_of(tmp_path / "two" / ".." / "one")
    assert instance_of(first) != instance_of(second)
    assert new_marker(first, 12, 7) != marker
    assert len(marker) <= 120  # the column that keeps it


def test_a_marker_of_an_earlier_version_is_read_and_what_is_none_is_not() -> None:
    assert read_marker("draftmill-12-7-0123456789abcdef") == Marker(None, 12, 7)
    for other in (
        "",
        "marker",
        "draftmill-12-7",
        "draftmill-xyz-12-7-0123456789abcdef",
        "draftmill-1-2-0123456789ABCDEF",
    ):
        assert read_marker(other) is None


def test_the_machine_is_known_by_name_and_boot() -> None:
    assert machine().host == os.uname().nodename
    boot, _, namespace = machine().boot_id.partition("/")
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert str(Path("/proc/self/ns/pid").readlink()) == f"pid:[{namespace}]", "containers of one machine share its boot"
    assert len(machine().boot_id) <= 64


def test_every_process_with_a_marker_is_found(sleeper: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    found = dict(marked())
    assert read_marker(found[sleeper.pid]) == Marker(instance_of(tmp_path), 3, 1)
    assert os.getpid() not in found


def test_a_folder_is_shared_with_a_process_that_sees_the_same_one(
    sleeper: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    assert shares_folder(sleeper.pid, tmp_path)
    assert not shares_folder(sleeper.pid, tmp_path / "missing")
    assert not shares_folder(2**22 + 1, tmp_path)  # above every pid
