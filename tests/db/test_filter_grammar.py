"""The filter as people write it: every field, every spelling, and a sentence for each mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.errors import Invalid
from db.filters import FIELDS, NONE, SORTS, Condition, Filter, Span, parse_body, parse_query

HOSTILE = [
    "O'Brien",
    '"x"',
    "50%",
    "a_b",
    "a,b",
    "back\\slash",
    "trailing\\",
    "\\,",
    "';DROP TABLE samples;--",
    "日本 é",
    " ",
]


def only(flt: Filter) -> Condition:
    (condition,) = flt.conditions
    return condition


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("minus", ["", "-"])
def test_every_field_is_read_from_query_and_body_alike(field: str, minus: str):
    value = {"state": "done", "verdict": "good", "kind": "reasoning", "len": "5..9", "turn": "0", "attempts": "2.."}
    text = value.get(field, "x")
    flt = parse_query([(minus + field, text)])
    assert (only(flt).field, only(flt).negated, only(flt).written) == (field, minus == "-", (text,))
    assert parse_body({minus + field: [text]}) == flt
    assert parse_body({minus + field: text}) == flt
    assert parse_query(flt.to_query()) == parse_body(flt.to_json()) == flt


def test_any_of_by_comma_list_and_repetition_is_the_same():
    expected = parse_query([("category", "a,b")])
    assert only(expected).values == ("a", "b")
    assert parse_query([("category", "b"), ("category", "a")]) == expected
    assert parse_body({"category": ["a", "b", "a"]}) == expected
    assert parse_body({"category": "a,b"}) == expected


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("field", ["category", "tag", "source_id", "q", "reviewer", "flag", "finish"])
def test_hostile_values_are_kept_to_the_letter(field: str, value: str):
    flt = parse_body({field: [value]})
    assert only(flt).values == (value,)
    assert parse_query(flt.to_query()) == flt
    assert parse_body(flt.to_json()) == flt


def test_q_is_taken_as_it_stands():
    assert only(parse_query([("q", "a,b\\,c")])).values == ("a,b\\,c",)


def test_a_blank_box_of_a_form_is_no_condition_and_the_empty_category_can_be_named():
    assert parse_query([("category", ""), ("tag", ""), ("q", ""), ("len", ""), ("sort", "")]).is_empty
    assert only(parse_query([("category", ",")])).values == ("",)
    assert parse_query(parse_body({"category": [""]}).to_query()) == parse_body({"category": [""]})


@pytest.mark.parametrize(
    "body", [{"tag": ""}, {"tag": []}, {"tag": [""]}, {"category": []}, {"q": ""}, {"state": None}]
)
def test_a_blank_in_a_body_is_refused_rather_than_read_as_everything(body: dict[str, object]):
    with pytest.raises(Invalid) as caught:
        parse_body(body)
    assert caught.value.code == "filter_bad_value"
    assert caught.value.field == next(iter(body))


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("100..500", Span(100, 500)),
        ("100..", Span(100, None)),
        ("..500", Span(None, 500)),
        ("7", Span(7, 8)),
        ("0", Span(0, 1)),
        ("2147483647", Span(2147483647, 2147483648)),
    ],
)
def test_ranges_are_half_open(text: str, span: Span):
    assert only(parse_query([("len", text)])).spans == (span,)
    assert str(span) == text


@pytest.mark.parametrize(
    "text",
    [
        "..",
        "500..100",
        "5..5",
        "a",
        "1..b",
        "-1",
        "1...2",
        "1.5",
        "１..２",
        "1_0",
        "99999999999",
        "2147483648",
        "9" * 500,
        " 1",
    ],
)
def test_a_range_that_is_none_is_refused(text: str):
    with pytest.raises(Invalid) as caught:
        parse_query([("-len", text)])
    assert (caught.value.code, caught.value.field) == ("filter_bad_value", "-len")


@pytest.mark.parametrize("name", ["colour", "-colour", "--tag", "", "-", "tags", "State", "-sort", "x" * 10_000])
def test_an_unknown_field_is_named(name: str):
    for read in (lambda: parse_query([(name, "x")]), lambda: parse_body({name: ["x"]})):
        with pytest.raises(Invalid) as caught:
            read()
        assert (caught.value.code, caught.value.field) == ("filter_unknown_field", name)
        assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "finished"),
        ("verdict", "great"),
        ("kind", "thinking"),
        ("sort", "size"),
        ("q", "a\x00b"),
        ("tag", "\ud800"),
        ("source_id", "x" * 1001),
    ],
)
def test_a_bad_value_names_its_field(name: str, value: str):
    with pytest.raises(Invalid) as caught:
        parse_query([(name, value)])
    assert (caught.value.code, caught.value.field) == ("filter_bad_value", name)


@pytest.mark.parametrize("value", [True, 1.5, {"a": 1}, [["a"]], [None], [10**30], [-1]])
def test_a_body_value_of_the_wrong_type_is_refused(value: object):
    with pytest.raises(Invalid) as caught:
        parse_body({"turn": value})
    assert (caught.value.code, caught.value.field) == ("filter_bad_value", "turn")


def test_numbers_in_a_body_may_be_numbers():
    assert parse_body({"turn": 0, "attempts": [2, "4.."]}) == parse_query([("turn", "0"), ("attempts", "2,4..")])


def test_paging_names_are_passed_over_only_when_asked():
    assert parse_query([("limit", "5"), ("tag", "x")], ignore=("limit", "after")) == parse_query([("tag", "x")])
    with pytest.raises(Invalid):
        parse_query([("limit", "5")])


@pytest.mark.parametrize("sort", SORTS)
def test_sorts_survive_the_round_trip(sort: str):
    flt = parse_query([("sort", sort)])
    assert flt.sort == sort
    assert flt.is_empty
    assert parse_query(flt.to_query()) == parse_body(flt.to_json()) == flt


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20)
bodies = st.dictionaries(
    st.sampled_from(
        [minus + name for name in ("category", "tag", "flag", "q", "source_id", "finish") for minus in ("", "-")]
    ),
    st.lists(texts, min_size=1, max_size=4),
)


@given(body=bodies, sort=st.sampled_from(SORTS))
def test_any_filter_survives_query_and_body(body: dict[str, object], sort: str):
    flt = parse_body({**body, "sort": sort})
    assert {condition.name: set(condition.values) for condition in flt.conditions} == {
        k: set(v) for k, v in body.items()
    }
    assert parse_query(flt.to_query()) == flt
    assert parse_body(flt.to_json()) == flt


@given(items=st.lists(st.tuples(st.sampled_from([*FIELDS, "sort", "zz"]), st.text(max_size=12)), max_size=5))
def test_any_query_is_read_or_refused_in_words(items: list[tuple[str, str]]):
    try:
        flt = parse_query(items)
    except Invalid as error:
        assert error.field in dict(items)  # noqa: PT017  (either outcome is right; a refusal must name its field)
    else:
        assert parse_query(flt.to_query()) == flt


def test_none_is_a_word_of_closed_fields_too():
    assert only(parse_query([("verdict", NONE)])).values == (NONE,)
    assert only(parse_query([("kind", f"content,{NONE}")])).values == ("content", NONE)
