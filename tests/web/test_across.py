"""The sample page beside other readings of the same ids: SGLang's parsers, its text encoded again, every call of a segment."""

from collections.abc import Iterator
from typing import Any

import pytest

from inference.review import samples as service
from inference.review.views import CallView, DriftView, EngineReadingView, SampleView, SegmentView
from tests.web.reading import Element, check_page, read
from tests.web.site import HARMONY, HOSTILE, Kit, Site, open_site
from web.calls import of
from web.readings import MOST, across

HOSTILE_NAME = "<img src=x onerror=alert(1)>"
TWO = (
    '[{"name": "get_time", "arguments": {"city": "Oslo"}}, '
    f'{{"name": "{HOSTILE_NAME}", "arguments": {{"id": 12345678901234567890}}}}]'
)


@pytest.fixture(scope="module")
def harmony(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("harmony"), HARMONY) as made:
        yield made


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Answers with two calls in one segment, and with the second of them broken."""
    answers = tuple(
        f"<think>Hm.</think>\n\n<tool_call>\n{payload}\n</tool_call><|im_end|>"
        for payload in (TWO, TWO.replace("}}]", "}, 5"))
    )
    with open_site(tmp_path_factory.mktemp("callers"), Kit(answers)) as made:
        yield made


def shown(site: Site, number: int, query: str = "") -> Element:
    with site.as_("reviewer") as client:
        return check_page(client.get(site.sample(number) + query).text)


def readings(page: Element) -> dict[str, Element]:
    """Each folded reading by its summary."""
    return {" ".join(item.all("summary")[0].text.split()): item for item in page.all("details", class_="reading")}


def test_what_sglang_would_have_returned_stands_beside_ours(harmony: Site) -> None:
    page = shown(harmony, 2)
    found = readings(page)["SGLang's gpt-oss parser would have returned something else"]
    assert "would be dropped" in found.all("ul")[0].text
    theirs, ours = found.all("div", class_="beside")[0].all("dl")
    assert "(empty)" in theirs.all("dd")[1].text
    assert ours.all("dd")[1].text == "Yes."
    (chip,) = [link for link in page.all("a", class_="flag") if link.attrs["href"] == "#engine"]
    assert "SGLang's gpt-oss parser" in chip.text
    assert page.all("section", id="engine")


def test_a_parser_that_agrees_raises_no_voice(site: Site) -> None:
    page = shown(site, 0)
    assert not [link for link in page.all("a", class_="flag") if "SGLang" in link.text]
    assert all("open" not in item.attrs for item in page.all("details", class_="reading"))
    assert "would have returned the same as here" in page.all("section", id="engine")[0].text


def test_texts_of_other_readings_are_shown_to_the_character(site: Site) -> None:
    page = shown(site, 2)
    (found,) = readings(page).values()
    theirs = found.all("div", class_="beside")[0].all("dl")[0].all("pre")[-1].text
    assert theirs.rstrip() == f"<think>{HOSTILE}</think>\n\n{HOSTILE}".rstrip()
    assert not page.all("main")[0].all("img")


def test_the_raw_view_leads_to_where_the_readings_are(harmony: Site) -> None:
    page = shown(harmony, 2, "?view=raw")
    (chip,) = [link for link in page.all("a", class_="flag") if "SGLang" in link.text]
    target = str(chip.attrs["href"])
    assert target.endswith("#engine")
    with harmony.as_("reviewer") as client:
        assert read(client.get(target.partition("#")[0]).text).all("section", id="engine")


def sample_view(*found: EngineReadingView) -> SampleView:
    parts = [
        SegmentView(kind="reasoning", start=0, end=1, text="a"),
        SegmentView(kind="content", start=1, end=2, text="b"),
    ]
    return SampleView.model_construct(engine_readings=list(found), segments=parts)


def reading(parser: str | None, *, same: bool, content: str = "b") -> EngineReadingView:
    return EngineReadingView(
        parser=parser, forced=False, reasoning="a", content=content, sentences=[] if same else ["s"], same=same
    )


def test_nothing_is_shown_where_every_reading_is_the_same() -> None:
    assert across(sample_view()) is None
    assert across(sample_view(reading("qwen3", same=True), reading(None, same=True))) is None


def test_parsers_that_would_say_the_same_are_told_together_and_the_longest_texts_in_part() -> None:
    long = "x" * (MOST + 5)
    found = across(
        sample_view(
            reading("p", same=False, content=long), reading("q", same=False, content=long), reading("r", same=True)
        )
    )
    assert found is not None
    (one,) = found.differing
    assert one.parsers == ("p", "q")
    assert [len(one.fields[1].text), one.fields[1].more] == [MOST, 5]
    assert found.same == ("r",)
    assert found.unparsed is None
    assert [item.text for item in found.ours] == ["a", "b"]


def test_drift_leads_to_its_first_token(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made = service.sample_view

    def drifted(*arguments: Any) -> SampleView:
        drift = DriftView(position=3, ids=[1, 2], becomes=[9], message="<b>told</b>")
        return made(*arguments).model_copy(update={"drift": drift})

    monkeypatch.setattr("web.routes.samples.service.sample_view", drifted)
    page = shown(site, 0)
    (found,) = [item for summary, item in readings(page).items() if "other ids from token 3 on" in summary]
    assert found.all("a")[0].attrs["href"] == "#t3"
    assert page.all("i", id="t3")
    assert "<b>told</b>" in found.text
    assert [item.text for item in found.all("code")] == ["1 2", "9"]


def test_every_call_of_a_segment_is_shown(callers: Site) -> None:
    page = shown(callers, 0)
    (card,) = [item for item in page.all("div", class_="tool_call") if item.has({"class_": "seg"})]
    assert [item.text for item in card.all("p", class_="nth")] == ["call 1 of 2", "call 2 of 2"]
    names = [item.all("dd")[0].text for item in card.all("dl", class_="call")][:2]
    assert names == ["get_time", HOSTILE_NAME]
    assert '{\n  "id": 12345678901234567890\n}' in [item.text for item in card.all("pre")]
    assert not page.all("img")


def test_a_fault_says_where_and_what_stands_there(callers: Site) -> None:
    page = shown(callers, 1)
    (card,) = [item for item in page.all("div", class_="tool_call") if item.has({"class_": "seg"})]
    assert card.all("span", class_="no")
    assert card.all("mark")
    for link in card.all("dl", class_="call")[-1].all("a"):
        assert str(link.attrs["href"]).startswith("/flags#tool_")


def test_calls_that_are_no_json_keep_their_white_space() -> None:
    raw = "\n<parameter=city>\n  Oslo\n</parameter>"
    call = CallView(name="f", arguments=raw, arguments_valid=True, error=None, position=None)
    (found,) = of(SegmentView(kind="tool_call", start=0, end=1, text=raw, calls=[call]))
    assert found.pretty is None
    assert found.arguments == raw


def test_a_fault_at_the_end_of_a_call_has_its_place_too() -> None:
    call = CallView(name=None, arguments=None, arguments_valid=False, error="ends", position=7)
    (found,) = of(SegmentView(kind="tool_call", start=0, end=1, text='{"name"', calls=[call]))
    assert found.at is not None
    assert (found.at.before, found.at.here, found.at.after) == ('{"name"', "", "")


def test_channels_are_named_on_their_segments(harmony: Site) -> None:
    channels = [[item.text for item in shown(harmony, number).all("span", class_="channel")] for number in (0, 1, 3)]
    assert channels == [["analysis", "commentary"], ["analysis", "final"], ["commentary", "analysis"]]
    assert "final" in shown(harmony, 1, "?view=text").all("div", class_="plain")[0].text


def test_flags_of_messages_cite_their_tokens(harmony: Site) -> None:
    page = shown(harmony, 2)
    (flag,) = [link for link in page.all("a", class_="flag") if "header malformed" in link.text]
    start, end = map(int, str(flag.attrs["data-range"]).split("-"))
    marked = shown(harmony, 2, f"?t={start}-{end}").all("i", class_="m")
    assert "".join(token.text for token in marked) == "<|channel|>nonsense header<|message|>x<|end|>"
    missing = [link.text for link in shown(harmony, 3).all("a", class_="flag")]
    assert any("final missing" in text for text in missing)
