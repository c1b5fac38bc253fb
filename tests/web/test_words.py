"""Values in words never claim more than is so."""

from datetime import UTC, datetime, timedelta

import pytest

from inference.runs.views import Counts
from web import charts, words


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(0, 10, "0 %"), (1, 1000, "<1 %"), (999, 1000, ">99 %"), (10, 10, "100 %"), (0, 0, "–")]
)
def test_share_never_rounds_to_all_or_nothing(part: int, whole: int, text: str) -> None:
    assert words.share(part, whole) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.4 s"),
        (0.042, "42 ms"),
        (12, "12 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
        (None, "–"),
    ],
)
def test_duration_in_words(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


def test_size_and_since() -> None:
    assert words.size(812_345) == "812 kB"
    assert words.size(3_400_000_000) == "3.4 GB"
    now = datetime.now(UTC)
    assert words.since(now - timedelta(seconds=90), now) == "1 min 30 s"


def test_filter_value_reads_back_as_one_value() -> None:
    from urllib.parse import unquote

    from db.filters import parse_query

    for value in ("a,b", "back\\slash", "a&b=c", "ü%", ""):
        flt = parse_query([("category", unquote(words.filter_value(value)))])
        assert flt.conditions[0].values == (value,)


def test_bar_parts_fill_exactly_what_is_settled() -> None:
    parts = charts.bar(Counts(pending=50, in_flight=10, done=30, failed=10, skipped=0, flagged=5))
    assert [(part.kind, part.width) for part in parts] == [
        ("clean", 25),
        ("flagged", 5),
        ("failed", 10),
        ("flight", 10),
    ]
    assert charts.bar(Counts()) == ()


def test_histogram_shows_the_smallest_column() -> None:
    drawn = charts.histogram([(0, 10, 1), (10, 20, 0), (20, 30, 100_000)])
    assert drawn is not None
    assert drawn.columns[0].height > 1
    assert drawn.columns[1].height == 0
    assert charts.histogram([]) is None
