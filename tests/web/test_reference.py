"""What is looked up beside a run: model families with their markers, how they fit a tokenizer, and what flags mean."""

import pytest

from inference.quality.flags import FLAG_CODES
from inference.tokens.formats import all_formats
from tests.web.reading import Element, check_page, read
from tests.web.site import Site

FAMILIES = all_formats()


def families(page: Element) -> dict[str, Element]:
    return {str(section.attrs["id"]): section for section in page.all("section", class_="family")}


def markers(section: Element) -> dict[str, str]:
    """Each marker's text and what is said of it."""
    return {item.all("code")[0].text: item.all("span")[0].text for item in section.all("li", class_="marker")}


def test_every_family_is_there_with_every_marker_it_declares(site: Site) -> None:
    with site.as_("reviewer") as client:
        shown = families(check_page(client.get("/token-formats").text))
    assert list(shown) == [item.name for item in FAMILIES]
    for item in FAMILIES:
        assert set(markers(shown[item.name])) == set(item.markers())
        assert item.title in shown[item.name].text
        for parser in item.reasoning_parsers:
            assert parser in shown[item.name].text


def test_markers_say_what_they_do_in_the_colour_of_their_segment(site: Site) -> None:
    with site.as_("reviewer") as client:
        shown = families(read(client.get("/token-formats").text))
    kimi = markers(shown["kimi_k2"])
    assert kimi["<think>"] == "opens"
    assert kimi["<|tool_calls_section_begin|>"] == "section begins"
    assert kimi["<|tool_call_argument_begin|>"] == "before arguments"
    assert kimi["<|im_end|>"] == "ends the answer"
    colours = {
        item.all("code")[0].text: (item.attrs["class"] or "").split()[1]
        for item in shown["kimi_k2"].all("li", class_="marker")
    }
    assert colours["</think>"] == "reasoning"
    assert colours["<|tool_call_end|>"] == "tool_call"
    harmony = {item.all("code")[0].text for item in shown["gpt_oss"].all("li", class_="message")}
    assert harmony == {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"}
    assert "Reasoning is due always" in shown["deepseek_r1"].text
    assert "ordinary ids" in shown["deepseek_v3"].text


def test_a_tokenizer_is_told_its_format_with_the_reason_and_its_own_ids(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = check_page(client.get("/token-formats?tokenizer=tiny").text)
    (told,) = page.all("section", class_="good")
    assert "qwen3 fits best" in told.text
    assert "<think>" in told.text
    shown = families(page)
    assert next(iter(shown)) == "qwen3"
    assert "suggested" in shown["qwen3"].text
    assert markers(shown["qwen3"])["</think>"] == "closes · 151668"
    assert set(shown) == {item.name for item in FAMILIES}


def test_a_family_that_does_not_fit_says_which_tokens_are_missing(site: Site) -> None:
    with site.as_("reviewer") as client:
        shown = families(read(client.get("/token-formats?tokenizer=tiny").text))
    refused = shown["kimi_k2"]
    assert "does not fit" in refused.text
    assert "<|tool_calls_section_begin|> (spelled with" in refused.all("p")[0].text
    assert markers(refused)["<|tool_call_begin|>"].endswith("no single token")
    assert markers(refused)["<think>"].endswith("151667")


def test_a_delimiter_spelled_with_several_ids_shows_them(site: Site) -> None:
    tokenizer = site.shop.ctx.tokenizers.get("tiny")
    with site.as_("reviewer") as client:
        shown = families(read(client.get("/token-formats?tokenizer=tiny").text))
    spelled = " ".join(map(str, tokenizer.encode("<tool_calls>")))
    assert markers(shown["hunyuan"])["<tool_calls>"] == f"section begins, spelled · {spelled}"


@pytest.mark.parametrize(
    ("name", "words"),
    [("/etc", "outside the model roots"), ("nowhere", "no tokenizer folder nowhere"), ("<b>&", "<b>&"), ("..", "..")],
)
def test_a_tokenizer_that_cannot_be_had_is_told_at_the_field(site: Site, name: str, words: str) -> None:
    with site.as_("reviewer") as client:
        answer = client.get("/token-formats", params={"tokenizer": name})
    assert answer.status_code == 422
    page = check_page(answer.text)
    (field,) = page.all("input", id="f-tokenizer")
    assert field.attrs["aria-invalid"] == "true"
    assert field.attrs["value"] == name
    assert words in page.all("div", id="h-tokenizer")[0].text
    assert len(families(page)) == len(FAMILIES)


def test_known_tokenizers_are_offered(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get("/token-formats").text)
    offered = [str(option.attrs["value"]) for option in page.all("datalist", id="models")[0].all("option")]
    assert any(value.endswith("tiny") for value in offered)


def test_every_flag_code_has_its_meaning_at_an_address_of_its_own(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = check_page(client.get("/flags").text)
    rows = {str(row.attrs["id"]): row for row in page.all("tr") if "id" in row.attrs}
    assert set(rows) == set(FLAG_CODES)
    for code, row in rows.items():
        assert FLAG_CODES[code].meaning in row.text
        assert FLAG_CODES[code].severity in row.text
    assert "if asked for" in rows["retokenization_drift"].text
    assert "always" in rows["content_lost"].text


def test_flags_are_grouped_by_when_they_are_looked_for(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get("/flags").text)
    groups = {
        str(section.attrs["id"]).removeprefix("of-"): {row.attrs.get("id") for row in section.all("tr")} - {None}
        for section in page.all("section")
    }
    for needs, codes in groups.items():
        assert codes == {flag.code for flag in FLAG_CODES.values() if flag.needs == needs}


def test_every_page_leads_to_what_its_flags_and_markers_mean(site: Site) -> None:
    with site.as_("reviewer") as client:
        for path in ("/runs", f"/runs/{site.run_id}", "/render", "/exports"):
            links = {link.attrs.get("href") for link in read(client.get(path).text).all("a")}
            assert {"/token-formats", "/flags"} <= links, path


def test_a_flag_in_a_list_says_what_it_means(site: Site) -> None:
    with site.as_("reviewer") as client:
        page = read(client.get(f"/runs/{site.run_id}/samples?flag=truncated").text)
    titles = {badge.attrs.get("title") for badge in page.all("span", class_="badge")}
    assert FLAG_CODES["truncated"].meaning in titles
