"""Writing as a whole: files, manifest, crash, full disk, stop; nothing half-made is ever in place."""

import errno
import hashlib
import json
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

from db.errors import Conflict, NotFound
from db.tables import Export, Run
from inference.export import files, input_ids_jsonl, parquet_rows, stream
from inference.export.service import export_file, forget_orphans, list_exports, page_exports, write_export
from tests.export.shop import SETTINGS, STOP, Shop

FORMATS = ["input_ids_jsonl", "parquet"]


def folders(shop: Shop) -> list[str]:
    root = shop.ctx.settings.data_dir / "exports"
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


@pytest.mark.parametrize("target", FORMATS)
def test_manifest_says_all_that_a_row_does_not(any_shop: Shop, target: str) -> None:
    for length in (1, 2, 6):
        any_shop.add([1, 2], [9] * length + [STOP])
    any_shop.add(finish="length")
    view = any_shop.export(target)
    assert view.state == "done"
    assert view.finished_at is not None
    manifest = any_shop.manifest(view)
    assert manifest["run"]["name"] == "first"
    assert manifest["run"]["fingerprint"] == "f" * 64
    assert manifest["model"] == "demo"
    assert manifest["tokenizer"] == {
        "name": "demo",
        "sha256": "aa",
        "template_sha256": "bb",
        "vocab_size": 201_000,
        "stop_ids": [STOP],
    }
    assert manifest["sampling"] == SETTINGS["sampling"]
    assert manifest["chat_template_kwargs"] == {"thinking": True}
    (server,) = manifest["servers"]
    assert (server["sglang_version"], server["start"], server["weight_version"], server["rows"]) == (
        "0.5.23",
        3,
        "w1",
        3,
    )
    assert manifest["options"]["rows_per_file"] == 50_000
    assert manifest["trained_tokens"] == {"min": 2, "median": 3.0, "max": 7, "sum": 12} == view.counts["trained_tokens"]
    assert "SECRET" not in json.dumps(manifest)
    assert "generated turn alone" in manifest["choices"]["trained"]


@pytest.mark.parametrize("target", FORMATS)
def test_files_are_what_their_hashes_say_and_side_files_lie_outside_the_data(shop: Shop, target: str) -> None:
    for _ in range(7):
        shop.add()
    view = shop.export(target, rows_per_file=3)
    data = [file for file in view.files if file.rows is not None]
    assert [file.rows for file in data] == [3, 3, 1]
    listed = {file["path"]: file for file in shop.manifest(view)["files"]}
    for file in view.files:
        path = shop.path(view, file.name)
        content = path.read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
        assert path.parent.name == ("data" if file.rows is not None else str(view.id))
        if file.name != "manifest.json":
            relative = str(path.relative_to(path.parents[1] if file.rows is not None else path.parent))
            assert listed[relative]["sha256"] == file.sha256
    assert {path.name for path in shop.path(view, data[0].name).parent.iterdir()} == {file.name for file in data}


def test_trained_ids_are_counted_one_by_one(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.export.figures._PENDING", 5)
    monkeypatch.setattr("inference.export.figures._DENSE", 100_000)
    rng = np.random.default_rng(1)
    wanted: dict[str, int] = {}
    for _ in range(20):
        output = [*rng.choice([3, 50_000, 99_999, 100_000, 200_012, 2**31 - 1], 4).tolist(), STOP]
        shop.add([3, 3, 3], output)
        for token in output:
            wanted[str(token)] = wanted.get(str(token), 0) + 1
    counts = json.loads(shop.path(shop.export(), "token_counts.json").read_text())
    assert counts == wanted
    assert list(map(int, counts)) == sorted(map(int, counts))


@pytest.mark.parametrize("target", FORMATS)
def test_many_rows_over_batches_groups_and_files_stay_whole_and_in_order(
    shop: Shop, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_BATCH_SAMPLES", 7)
    monkeypatch.setattr(stream, "_BATCH_IDS", 40)
    monkeypatch.setattr(parquet_rows, "GROUP_ROWS", 4)
    monkeypatch.setattr(parquet_rows, "GROUP_IDS", 30)
    wanted = []
    for number in range(60):
        length = number % 11 + 1
        shop.add([number], [number + 1000] * length + [STOP], finish="length" if number % 13 == 0 else "stop")
        if number % 13:
            wanted.append([number, *[number + 1000] * length, STOP])
    view = shop.export(target, rows_per_file=17)
    assert [row["input_ids"] for row in shop.rows(view)] == wanted
    assert view.counts["left_out"] == {"truncated": 5}


def test_same_run_gives_the_same_bytes_twice(shop: Shop) -> None:
    for _ in range(5):
        shop.add()
    first, second = ([f.sha256 for f in shop.export().files if f.name != "manifest.json"] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("target", FORMATS)
def test_full_disk_fails_the_export_with_a_sentence_and_keeps_nothing(
    shop: Shop, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        shop.add()
    monkeypatch.setattr(parquet_rows, "GROUP_ROWS", 2)
    original = files.HashedFile.write

    def full(self: files.HashedFile, data: bytes) -> int:
        if self.tell() > 400:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(self, data)

    monkeypatch.setattr(files.HashedFile, "write", full)
    view = shop.export(target)
    assert view.state == "failed"
    assert "full" in view.message
    assert view.files == []
    assert folders(shop) == []


class Killed(BaseException):
    """Stands for the end of the process: no handler of ours catches it."""


def test_writer_that_dies_leaves_no_half_export_and_the_next_one_finishes_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        shop.add()
    number = shop.order()
    left = shop.ctx.settings.data_dir / "exports" / f".{number}.partial"
    left.mkdir(parents=True)
    (left / "old").write_text("what a killed process could not remove")

    def die(_self: object, _file: object, _row: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(input_ids_jsonl.JsonlWriter, "_append", die)
        with pytest.raises(Killed):
            write_export(shop.ctx, number)
    assert shop.view(number).state == "writing"
    with pytest.raises(Conflict), shop.ctx.db.read() as s:
        export_file(shop.ctx, s, number, "manifest.json")
    write_export(shop.ctx, number)
    view = shop.view(number)
    assert len(shop.rows(view)) == 5
    assert folders(shop) == [str(number)]


def test_export_in_place_but_not_yet_in_the_database_is_written_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add()
    number = shop.order()

    def die(*_args: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("inference.export.writer._finish", die)
        with pytest.raises(Killed):
            write_export(shop.ctx, number)
    assert folders(shop) == [str(number)]
    write_export(shop.ctx, number)
    assert len(shop.rows(shop.view(number))) == 1
    before = shop.view(number)
    write_export(shop.ctx, number)  # done: nothing happens
    assert shop.view(number) == before


def test_stop_leaves_the_export_to_the_next_process(shop: Shop) -> None:
    shop.add()
    number = shop.order()
    stop = threading.Event()
    stop.set()
    write_export(shop.ctx, number, stop)
    assert shop.view(number).state == "writing"
    assert folders(shop) == []
    write_export(shop.ctx, number)
    assert shop.view(number).state == "done"


def test_progress_is_told_while_it_is_written(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.export.writer.PROGRESS_S", 0)
    shop.add()
    shop.add()
    seen: list[str] = []
    original = input_ids_jsonl.JsonlWriter._append

    def spy(self: object, file: object, row: object) -> None:
        with shop.ctx.db.read() as s:
            seen.append(list_exports(s)[0].message)
        original(self, file, row)

    monkeypatch.setattr(input_ids_jsonl.JsonlWriter, "_append", spy)
    view = shop.export()
    assert seen == ["", "0 of 2 samples looked at, 1 rows written."]
    assert view.message == ""


def test_damaged_ids_cost_their_own_sample_and_no_other(shop: Shop) -> None:
    numbers = [shop.add() for _ in range(3)]
    (path,) = (shop.ctx.settings.data_dir / "ids").glob("run-*.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE ids SET blob = substr(blob, 1, length(blob) - 1) WHERE sample_id = ?", (numbers[1],))
    connection.close()
    view = shop.export()
    assert len(shop.rows(view)) == 2
    assert view.counts["left_out"] == {"ids_damaged": 1}


def test_file_names_lead_nowhere_but_to_the_export(shop: Shop) -> None:
    shop.add()
    view = shop.export()
    assert shop.path(view, "data/part-00000.jsonl") == shop.path(view, "part-00000.jsonl")
    secret = shop.ctx.settings.data_dir / "draftmill.sqlite"
    for name in (
        "../../draftmill.sqlite",
        str(secret),
        "data",
        "",
        ".",
        "..",
        "data/../manifest.json",
        "part-00001.jsonl",
    ):
        with pytest.raises(NotFound):
            shop.path(view, name)


def test_run_deleted_while_writing_leaves_no_folder(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.add()
    number = shop.order()
    original = input_ids_jsonl.JsonlWriter._append

    def delete(self: object, file: object, row: object) -> None:
        with shop.ctx.db.write() as s:
            s.delete(s.get_one(Export, number))
        original(self, file, row)

    monkeypatch.setattr(input_ids_jsonl.JsonlWriter, "_append", delete)
    write_export(shop.ctx, number)
    assert folders(shop) == []


def test_folders_without_an_export_are_forgotten(shop: Shop) -> None:
    shop.add()
    view = shop.export()
    root: Path = shop.ctx.settings.data_dir / "exports"
    for name in ("99", ".7.partial"):
        (root / name).mkdir()
    assert forget_orphans(shop.ctx) == 2
    assert folders(shop) == [str(view.id)]


def test_exports_are_listed_newest_first(shop: Shop) -> None:
    shop.add()
    made = [shop.order() for _ in range(3)]
    with shop.ctx.db.write() as s:
        other = Run(name="other", prompt_set_id=shop.prompt_set_id)
        s.add(other)
        s.flush()
        other_id = other.id
    with shop.ctx.db.read() as s:
        assert [view.id for view in list_exports(s)] == made[::-1]
        assert list_exports(s, other_id) == []
        page = page_exports(s, shop.run_id, limit=2)
        assert [view.id for view in page_exports(s, shop.run_id, page.next).items] == made[:1]
        with pytest.raises(NotFound):
            list_exports(s, 999)
