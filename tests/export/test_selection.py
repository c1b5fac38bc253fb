"""What is left out, under which reason, and what each option lets in."""

import pytest
from sqlalchemy import update

from db.errors import Conflict, Invalid, NotFound
from db.tables import Rederivation, Sample
from inference.export.service import create_export, export_formats
from tests.export.shop import STOP, Shop

LOOP = (("repetition_loop", "error", 0, 2),)
TRUNCATED = (("truncated", "error", 0, 2), ("reasoning_unclosed", "error", 0, 2))
WARNING = (("extra_close", "warning", 0, 1),)


def sources(shop: Shop, view) -> list[str]:
    import json

    return [json.loads(row["meta"])["source_id"] for row in shop.rows(view)]


def mixed(shop: Shop) -> None:
    shop.add(category="good")  # src-1
    shop.add(state="pending", finish=None, store=False)
    shop.add(state="in_flight", finish=None, store=False)
    shop.add(state="failed", finish=None, store=False)
    shop.add(state="skipped", finish=None, store=False)
    shop.add(finish="length", flags=TRUNCATED)  # src-6
    shop.add(finish="abort")
    shop.add(verdicts=("good", "bad"))  # src-8
    shop.add(flags=LOOP)  # src-9
    shop.add(flags=WARNING)  # src-10
    shop.add(store=False)
    shop.add(prompt_tokens=99)
    shop.add(prompt=[])
    shop.add(verdicts=("good",))  # src-14
    shop.add([1], [2**31])


def test_every_sample_is_exported_or_counted_under_its_first_reason(any_shop: Shop) -> None:
    mixed(any_shop)
    view = any_shop.export()
    assert sources(any_shop, view) == ["src-1", "src-10", "src-14"]
    assert view.counts["exported"] == 3
    assert view.counts["left_out"] == {
        "unfinished": 2, "failed": 1, "skipped": 1, "truncated": 1, "not_stopped": 1, "bad": 1, "flagged": 1,
        "ids_missing": 1, "ids_inconsistent": 1, "prompt_empty": 1, "id_too_large": 1,
    }  # fmt: skip
    counts = any_shop.manifest(view)["counts"]
    assert counts["exported"] + counts["left_out_total"] == 15
    assert set(counts["reasons"]) == set(counts["left_out"])


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"include_truncated": True}, ["src-6"]),
        ({"include_bad": True}, ["src-8"]),
        ({"include_flagged": ["repetition_loop"]}, ["src-9"]),
        ({"include_flagged": ["*"]}, ["src-9"]),
        ({"include_flagged": True}, ["src-9"]),
        ({"include_flagged": False}, []),
        ({"include_flagged": ["tool_unknown"]}, []),
        ({"include_truncated": True, "include_bad": True, "include_flagged": ["*"]}, ["src-6", "src-8", "src-9"]),
    ],
)
def test_options_let_in_what_they_name(shop: Shop, options: dict, more: list[str]) -> None:
    mixed(shop)
    assert sorted(sources(shop, shop.export(**options))) == sorted(["src-1", "src-10", "src-14", *more])


def test_require_good_takes_only_what_somebody_called_good(shop: Shop) -> None:
    mixed(shop)
    view = shop.export(require_good=True)
    assert sources(shop, view) == ["src-14"]
    assert (
        view.counts["left_out"]["not_good"] == 3 + 4
    )  # those that came through, and those that ids would have refused


def test_verdicts_and_flags_of_an_earlier_attempt_do_not_count(shop: Shop) -> None:
    sample = shop.add(verdicts=("bad",))
    shop.add()
    with shop.ctx.db.write() as s:
        s.get_one(Sample, sample).attempt = 2
    view = shop.export()
    assert "bad" not in view.counts["left_out"]
    assert view.counts["left_out"] == {"ids_missing": 1}  # attempt 2 was never stored


def test_filter_is_applied_on_top_and_what_it_leaves_out_is_counted(any_shop: Shop) -> None:
    for number in range(10):
        any_shop.add(category="a" if number % 3 == 0 else "b")
    view = any_shop.export(flt={"category": ["a"], "sort": "-len"})
    assert sources(any_shop, view) == ["src-1", "src-4", "src-7", "src-10"]
    assert view.counts["left_out"] == {"outside_filter": 6}
    assert any_shop.manifest(view)["filter"]["category"] == ["a"]


def test_rows_come_by_sample_id_whatever_the_filter_sorts_by(shop: Shop) -> None:
    for length in (5, 1, 3):
        shop.add([1], [7] * length + [STOP])
    assert sources(shop, shop.export(flt={"sort": "-len"})) == ["src-1", "src-2", "src-3"]


def test_rows_over_max_length_are_dropped_and_counted_unless_clipping_is_chosen(shop: Shop) -> None:
    shop.add([1, 2], [7, STOP])
    shop.add([1, 2], [7, 7, 7, STOP])
    shop.add([1, 2, 3, 4, 5], [7, STOP])
    dropped = shop.export(max_length=4)
    assert sources(shop, dropped) == ["src-1"]
    assert dropped.counts["left_out"] == {"too_long": 2}
    clipped = shop.export(max_length=4, over_length="clip")
    assert [row["input_ids"] for row in shop.rows(clipped)] == [[1, 2, 7, STOP], [1, 2, 7, 7]]
    assert clipped.counts["left_out"] == {"too_few_trained": 1}
    assert clipped.counts["clipped"] == 1


def test_min_loss_tokens_is_counted_after_cutting(shop: Shop) -> None:
    shop.add([1], [7, 7, STOP])
    shop.add([1], [STOP])
    assert sources(shop, shop.export(min_loss_tokens=2)) == ["src-1"]
    assert shop.export(min_loss_tokens=2).counts["left_out"] == {"too_few_trained": 1}


def test_export_with_nothing_in_it_is_refused_with_the_reasons(any_shop: Shop) -> None:
    any_shop.add(finish="length")
    any_shop.add(finish="length")
    any_shop.add(state="failed", finish=None, store=False)
    with pytest.raises(Invalid, match="1 generation failed, 2 cut off at the token limit") as caught:
        any_shop.order()
    assert caught.value.code == "export_empty"
    with pytest.raises(Invalid, match="3 outside the export's filter") as caught:
        any_shop.order(flt={"category": ["nope"]})
    assert caught.value.field == "filter"


def test_export_that_turns_out_empty_while_written_fails_and_leaves_no_files(shop: Shop) -> None:
    shop.add(store=False)
    view = shop.export()
    assert view.state == "failed"
    assert "1 its ids are not in the id store" in view.message
    assert list((shop.ctx.settings.data_dir / "exports").iterdir()) == []


@pytest.mark.parametrize(
    ("target", "options", "flt", "code", "field"),
    [
        ("csv", {}, {}, "export_format_unknown", "format"),
        ("parquet", {"max_lenght": 5}, {}, "export_options_invalid", "options.max_lenght"),
        ("parquet", {"include_flagged": ["repetition_lop"]}, {}, "export_options_invalid", "options.include_flagged"),
        ("parquet", {"include_flagged": ["\ud800"]}, {}, "export_options_invalid", "options.include_flagged"),
        ("parquet", {"rows_per_file": 0}, {}, "export_options_invalid", "options.rows_per_file"),
        ("parquet", {"over_length": "cut"}, {}, "export_options_invalid", "options.over_length"),
        ("parquet", {}, {"colour": ["red"]}, "filter_unknown_field", "colour"),
    ],
)
def test_wrong_choices_are_named(shop: Shop, target: str, options: dict, flt: dict, code: str, field: str) -> None:
    shop.add()
    with pytest.raises(Invalid) as caught:
        shop.order(target, flt, **options)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_no_export_is_made_of_flags_that_are_being_made_again(shop: Shop) -> None:
    shop.add()
    with shop.ctx.db.write() as s:
        job = Rederivation(run_id=shop.run_id)
        s.add(job)
    with pytest.raises(Conflict, match="when that is done") as caught:
        shop.order()
    assert caught.value.code == "rederive_running"
    with shop.ctx.db.write() as s:
        s.execute(update(Rederivation).values(state="done"))
    assert shop.order()


def test_unknown_run_is_not_found(shop: Shop) -> None:
    with pytest.raises(NotFound), shop.ctx.db.write() as s:
        create_export(s, shop.ctx, 999, "parquet")


def test_formats_tell_their_options_and_defaults() -> None:
    for view in export_formats():
        assert view.options["rows_per_file"]["default"] == 50_000
        assert all(option["description"] for option in view.options.values())
        view.model_dump_json()
