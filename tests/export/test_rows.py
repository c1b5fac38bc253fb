"""What a row holds: exact ids, a mask from ids alone, and nothing a trainer would choke on."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.errors import Invalid
from db.idstore import AttemptIds
from inference.export.rows import TrainingRow, check, masked
from tests.export.readers import specforge, speculators
from tests.export.shop import STOP, Shop

FORMATS = ["input_ids_jsonl", "parquet"]


@pytest.mark.parametrize("target", FORMATS)
def test_ids_above_every_small_integer_survive(any_shop: Shop, target: str) -> None:
    prompt, output = [65_535, 65_536, 131_071, 131_072, 163_606], [200_012, 2**31 - 1, 0, 200_012]
    any_shop.add(prompt, output)
    (row,) = any_shop.rows(any_shop.export(target))
    assert row["input_ids"] == prompt + output
    assert row["loss_mask"] == [0] * 5 + [1] * 4


@pytest.mark.parametrize("target", FORMATS)
def test_row_is_prompt_then_answer_with_its_stop_id_trained(shop: Shop, target: str) -> None:
    sample = shop.add([1, 2], [7, STOP], category="facts", repeat=2)
    (row,) = shop.rows(shop.export(target))
    assert row["input_ids"] == [1, 2, 7, STOP]
    assert row["loss_mask"] == [0, 0, 1, 1]
    assert (row["id"], row["category"]) == (f"r{shop.run_id}-s{sample}-a1", "facts")
    meta = json.loads(row["meta"])
    assert meta["sample_id"] == sample
    assert (meta["prompt_tokens"], meta["trained_tokens"], meta["repeat"], meta["source_id"]) == (2, 2, 2, "src-1")


def test_answer_that_also_stands_in_the_prompt_is_trained_only_where_it_was_generated(shop: Shop) -> None:
    shop.add([5, 6, STOP, 9], [5, 6, STOP])
    (row,) = shop.rows(shop.export())
    assert row["loss_mask"] == [0, 0, 0, 0, 1, 1, 1]


def test_ids_after_the_stop_are_cut_off_and_counted(shop: Shop) -> None:
    shop.add([1], [7, STOP, 9, 9], flags=(("after_stop", "warning", 2, 4),))
    view = shop.export()
    (row,) = shop.rows(view)
    assert row["input_ids"] == [1, 7, STOP]
    assert shop.manifest(view)["counts"]["after_stop_cut"] == 1


def test_ending_token_is_kept_as_generated_and_recorded(shop: Shop) -> None:
    shop.add([1], [7, 200_002])
    shop.add([1], [7, 200_012])
    view = shop.export()
    assert [row["input_ids"][-1] for row in shop.rows(view)] == [200_002, 200_012]
    manifest = shop.manifest(view)
    assert manifest["endings"] == {"200002": 1, "200012": 1}
    assert "never replaced" in manifest["choices"]["ending"]


@pytest.mark.parametrize(
    ("ids", "mask", "what"),
    [
        ([1, 2, 3], [0, 1], "3 ids but 2 mask"),
        ([1, 2], [1, 1], "ones alone"),
        ([1, 2], [0, 0], "zeros alone"),
        ([], [], "zeros alone"),
        ([1, 2], [0, 2], "other than 0 and 1"),
        ([1, 2**31], [0, 1], "2147483648"),
    ],
)
def test_writer_refuses_rows_that_would_train_wrongly(ids: list[int], mask: list[int], what: str) -> None:
    row = TrainingRow("r", "c", np.array(ids, np.uint32), np.array(mask, np.uint8), "{}")
    with pytest.raises(Invalid, match=what) as caught:
        check(row)
    assert caught.value.code == "export_row_invalid"


@given(
    prompt=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20),
    output=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20),
    data=st.data(),
)
def test_mask_covers_exactly_the_answer_whatever_the_ids(
    prompt: list[int], output: list[int], data: st.DataObject
) -> None:
    answer = data.draw(st.integers(0, len(output)))
    bound = data.draw(st.none() | st.integers(2, 45))
    ids = AttemptIds(np.array(prompt, np.uint32), np.array(output, np.uint32))
    input_ids, loss_mask = masked(ids, answer, bound)
    whole = prompt + output[:answer]
    assert input_ids.tolist() == whole[:bound]
    assert loss_mask.tolist() == ([0] * len(prompt) + [1] * answer)[:bound]
    assert input_ids.dtype == np.uint32


def test_files_are_read_by_the_rules_of_specforge_and_speculators(shop: Shop) -> None:
    wanted = []
    for length in range(1, 8):
        shop.add(list(range(100, 100 + length)), [7] * length + [STOP], category="" if length % 2 else "ü😀")
        wanted.append(([*range(100, 100 + length), *[7] * length, STOP], [0] * length + [1] * (length + 1)))
    view = shop.export(rows_per_file=3)
    paths = [shop.path(view, file.name) for file in view.files if file.rows is not None]
    assert [row for path in paths for row in specforge(path, max_length=4096)] == wanted
    assert speculators(paths[0].parent) == wanted
    assert len(specforge(paths[0], max_length=3, min_loss_tokens=1)) == 2


def test_parquet_has_fixed_columns_of_32_bit_lists(shop: Shop) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    shop.add()
    view = shop.export("parquet")
    schema = pq.read_schema(shop.path(view, "part-00000.parquet"))
    assert schema.names == ["input_ids", "loss_mask", "id", "category", "meta"]
    assert schema.field("input_ids").type == pa.list_(pa.int32())
    assert schema.field("loss_mask").type == pa.list_(pa.int32())
