"""The id store: what goes in comes out, exactly, or an error says why not."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text

from db.codec import IdsCorrupted, decode, encode
from db.engine import Database
from db.idstore import AttemptIds, IdStore
from db.stores import FileIdStore

ids_lists = st.lists(st.integers(0, 2**32 - 1), max_size=300)
keys = st.tuples(st.integers(1, 2**62), st.integers(0, 2**20))


def attempt(prompt, output) -> AttemptIds:
    return AttemptIds(np.array(prompt, np.uint32), np.array(output, np.uint32))


def plain(ids: AttemptIds | None) -> tuple[list[int], list[int]] | None:
    return None if ids is None else (ids.prompt_ids.tolist(), ids.output_ids.tolist())


def natural_ids(count: int, seed: int = 1) -> np.ndarray:
    """Ids as text has them: a few words make most of it, and a vocabulary's rare words lie anywhere above 65,535."""
    rng = np.random.default_rng(seed)
    rank = np.minimum(rng.zipf(1.25, count), 150_000)
    return (rank + rng.integers(0, 40, count) * (rank > 2_000)).astype(np.uint32)


@given(key=keys, prompt=ids_lists, output=ids_lists)
def test_any_ids_survive_the_codec(key, prompt, output):
    assert plain(decode(key, encode(key, attempt(prompt, output)))) == (prompt, output)


@given(key=keys, prompt=ids_lists, output=ids_lists, data=st.data())
def test_a_changed_or_cut_blob_is_refused_with_its_sample_named(key, prompt, output, data):
    blob = bytearray(encode(key, attempt(prompt, output)))
    if data.draw(st.booleans()):
        blob[data.draw(st.integers(0, len(blob) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del blob[data.draw(st.integers(0, len(blob) - 1)) :]
    with pytest.raises(IdsCorrupted) as caught:
        decode(key, bytes(blob))
    assert caught.value.code == "ids_corrupted"
    assert f"sample {key[0]}, attempt {key[1]}" in caught.value.message


def test_a_blob_under_another_key_is_refused():
    with pytest.raises(IdsCorrupted):
        decode((2, 1), encode((1, 1), attempt([5], [6])))


@hypothesis_settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.dictionaries(keys, st.tuples(ids_lists, ids_lists), max_size=6))
def test_any_ids_round_trip_through_the_store(id_store: IdStore, items):
    id_store.drop(1)
    id_store.put(1, [(key, attempt(*value)) for key, value in items.items()])
    asked = [*reversed(items), (2**62 + 1, 0)]
    assert [(key, plain(ids)) for key, ids in id_store.get_many(1, asked)] == [
        (key, items[key]) for key in reversed(items)
    ]


def test_ids_past_16_and_17_bits_survive(id_store: IdStore):
    wide = [65_535, 65_536, 131_071, 131_072, 163_606, 200_012, 2**32 - 1]
    id_store.put(7, [((1, 1), attempt(wide, wide[::-1]))])
    assert plain(id_store.get(7, (1, 1))) == (wide, wide[::-1])


def test_the_same_key_again_replaces_it(id_store: IdStore):
    id_store.put(1, [((1, 1), attempt([1], [2])), ((1, 1), attempt([1], [3]))])
    id_store.put(1, [((1, 2), attempt([1], [9]))])
    assert plain(id_store.get(1, (1, 1))) == ([1], [3])
    id_store.put(1, [((1, 1), attempt([4], []))])
    assert plain(id_store.get(1, (1, 1))) == ([4], [])
    assert plain(id_store.get(1, (1, 2))) == ([1], [9])


def test_runs_are_apart_and_dropped_alone(id_store: IdStore):
    id_store.put(1, [((1, 1), attempt([1], [1]))])
    id_store.put(2, [((1, 1), attempt([2], [2]))])
    id_store.drop(1)
    id_store.drop(3)
    assert id_store.get(1, (1, 1)) is None
    assert id_store.get(3, (1, 1)) is None
    assert plain(id_store.get(2, (1, 1))) == ([2], [2])
    id_store.put(1, [((9, 1), attempt([3], [3]))])
    assert plain(id_store.get(1, (9, 1))) == ([3], [3])


def test_many_keys_come_back_in_the_order_asked(id_store: IdStore):
    id_store.put(1, [((n, 1), attempt([n], [n, n])) for n in range(1, 701)])
    asked = [(n, 1) for n in range(1, 1_000)]
    random.Random(3).shuffle(asked)
    got = list(id_store.get_many(1, asked))
    assert [key for key, _ in got] == [key for key in asked if key[0] <= 700]
    assert all(plain(ids) == ([key[0]], [key[0]] * 2) for key, ids in got)


def test_damage_on_disk_is_found_when_read(database: Database, id_store: IdStore, data_dir: Path):
    id_store.put(4, [((1, 1), attempt([1, 2], [3, 4])), ((2, 1), attempt([5], [6]))])
    broken = encode((1, 1), attempt([1, 2], [3, 4]))[:-1] + b"\xff"
    if database.is_sqlite:
        with closing(sqlite3.connect(data_dir / "ids" / "run-4.sqlite")) as connection, connection:
            connection.execute("UPDATE ids SET blob = ? WHERE sample_id = 1", (broken,))
    else:
        with database.write() as s:
            s.execute(text("UPDATE payloads SET blob = :blob WHERE sample_id = 1"), {"blob": broken})
    with pytest.raises(IdsCorrupted):
        id_store.get(4, (1, 1))
    assert plain(id_store.get(4, (2, 1))) == ([5], [6])


def test_natural_text_takes_at_most_2_6_bytes_an_id_on_disk(tmp_path: Path):
    store = FileIdStore(tmp_path / "ids")
    stored = 0
    for batch in range(4):
        items = []
        for n in range(64):
            ids = natural_ids(2_200, seed=batch * 64 + n)
            items.append(((batch * 64 + n, 1), AttemptIds(ids[:200], ids[200:])))
            stored += len(ids)
        store.put(1, items)
    store.close()
    assert sum(path.stat().st_size for path in (tmp_path / "ids").iterdir()) / stored <= 2.6


def test_threads_write_and_read_at_once(id_store: IdStore):
    errors: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for n in range(20):
                key = (worker * 100 + n, 1)
                id_store.put(worker % 3, [(key, attempt([worker], [n]))])
                assert plain(id_store.get(worker % 3, key)) == ([worker], [n])
        except BaseException as error:  # noqa: BLE001  (handed to the test's own thread)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_more_runs_than_open_files(tmp_path: Path):
    store = FileIdStore(tmp_path)
    for turn in range(2):
        for run in range(1, 21):
            store.put(run, [((turn, 1), attempt([run], [turn]))])
    assert all(plain(store.get(run, (1, 1))) == ([run], [1]) for run in range(1, 21))
    store.close()


def test_a_run_dropped_by_another_process_does_not_swallow_its_successors_ids(tmp_path: Path):
    worker, app = FileIdStore(tmp_path), FileIdStore(tmp_path)
    worker.put(1, [((1, 1), attempt([1], [1]))])
    app.drop(1)
    worker.put(1, [((2, 1), attempt([2], [2]))])
    assert app.get(1, (1, 1)) is None
    assert plain(app.get(1, (2, 1))) == ([2], [2])
    worker.close()
    app.close()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from db.idstore import AttemptIds
from db.stores import FileIdStore

store = FileIdStore(Path(sys.argv[1]))
batch = int(sys.argv[2])
while True:
    ids = np.full(500, batch, np.uint32)
    store.put(1, [((batch * 10 + n, 1), AttemptIds(ids, ids)) for n in range(10)])
    print(batch, flush=True)
    batch += 1
"""


def test_a_killed_writer_loses_no_batch_it_acknowledged_and_leaves_none_half_written(tmp_path: Path):
    program = textwrap.dedent(WRITER)
    rng = random.Random(5)
    first = 0
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "ids"), str(first)], stdout=subprocess.PIPE, text=True
        )
        with writer:
            assert writer.stdout is not None
            for _ in range(rng.randint(1, 30)):
                acknowledged = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
            for line in writer.stdout:
                acknowledged = int(line)
        store = FileIdStore(tmp_path / "ids")
        for batch in range(acknowledged + 1):
            for n in range(10):
                assert plain(store.get(1, (batch * 10 + n, 1))) == ([batch] * 500, [batch] * 500)
        following = [store.get(1, ((acknowledged + 1) * 10 + n, 1)) for n in range(10)]
        assert all(ids is None for ids in following) or all(ids is not None for ids in following)
        store.close()
        first = acknowledged + 1
