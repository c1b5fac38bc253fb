"""Further flags as people write them: in lines, or as JSON; a bad line is named."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.errors import Invalid
from inference.backends.launch.flaglines import read_flags, write_flags
from inference.backends.launch.flags import ALLOWED, GUARDED, check_flags

FIELD = "extra_flags"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", None),
        (" \n", None),
        ("--page-size 64", {"page_size": 64}),
        ("--page-size=64 --disable-radix-cache", {"page_size": 64, "disable_radix_cache": True}),
        ("# mine\n--cuda-graph-bs-decode 1 2 4\n--schedule-policy lpm # why", {"cuda_graph_bs_decode": [1, 2, 4], "schedule_policy": "lpm"}),
        ("--disable-radix-cache false\n", {"disable_radix_cache": False}),
        ("--page-size 64 \\\n  --hicache-ratio 1.5", {"page_size": 64, "hicache_ratio": 1.5}),
        ("--json-model-override-args '{\"a\": 1}'", {"json_model_override_args": '{"a": 1}'}),
        ("--custom-weight-loader one.load two.load", {"custom_weight_loader": ["one.load", "two.load"]}),
        ('{"page_size": 64, "--disable-radix-cache": true}', {"page_size": 64, "--disable-radix-cache": True}),
    ],
)  # fmt: skip
def test_lines_and_json_say_the_same(text: str, flags: dict[str, Any] | None) -> None:
    assert read_flags(text, FIELD) == flags


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("page-size 64", "line 1: 'page-size' belongs to no flag"),
        ("--page-size 64\n--page-size 32", "line 2: --page-size is given twice"),
        ("--a 1\n--b 'open", "line 2: No closing quotation"),
        ('{"a": ', "not JSON (line 1"),
        ('{"a": NaN}', "not JSON"),
        ("{" * 100_000, "not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, told: str) -> None:
    with pytest.raises(Invalid) as error:
        read_flags(text, FIELD)
    assert told in error.value.message
    assert error.value.field == FIELD


def test_a_value_of_the_wrong_kind_is_left_for_the_flag_to_refuse() -> None:
    for line, told in (
        ("--page-size big", "a whole number"),
        ("--page-size 1 2", "a whole number"),
        ("--page-size", "a whole number"),
    ):
        with pytest.raises(ValueError, match=told):
            check_flags(read_flags(line, FIELD) or {}, ())


_VALUES = {
    "switch": st.booleans(),
    "int": st.integers(-1, 10**9),
    "float": st.floats(0, 1e6),
    "word": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,20}", fullmatch=True),
    "text": st.text("aé漢 '\"\\\\-#{}$=:/1", min_size=1, max_size=20),
    "ints": st.lists(st.integers(1, 999), min_size=1, max_size=5),
    "texts": st.lists(st.from_regex(r"[a-z.]{1,20}", fullmatch=True), min_size=1, max_size=3),
}
_KINDS = {**ALLOWED, **{name: item.kind for name, item in GUARDED.items()}}


_ONE = st.sampled_from(sorted(_KINDS)).flatmap(lambda name: st.tuples(st.just(name), _VALUES[_KINDS[name]]))


@given(st.lists(_ONE, max_size=4).map(dict))
def test_what_is_written_as_lines_is_read_again(flags: dict[str, Any]) -> None:
    try:
        checked = check_flags(flags, ())
    except ValueError:
        return  # a text that no command line can hold
    assert (read_flags(write_flags(checked), FIELD) or {}) == checked
    assert (read_flags(json.dumps(checked), FIELD) or {}) == checked
