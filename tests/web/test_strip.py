"""The token strip holds exactly the decoded text, whatever the model wrote, and no markup but its own."""

import itertools
from dataclasses import dataclass
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from web.strip import CHUNK, strip, text_mark


@dataclass(frozen=True)
class Token:
    index: int
    id: int
    kind: str
    bytes: str
    text: str
    group: tuple[int, int] | None = None


@dataclass(frozen=True)
class Range:
    kind: str
    start: int
    end: int


class Reader(HTMLParser):
    """What a browser would hold: text content (boxes for NUL put back), elements with their classes, token ids."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(str(html))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        self.open.append(tag)
        if values.get("data-u") == "U+0000":
            self.text += "\0"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def tokens(self) -> list[dict[str, str | None]]:
        return [values for tag, values in self.tags if tag == "i"]


HOSTILE = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</i></div>",
            "&amp;",
            "&#0;",
            "\0",
            "\r\n",
            "\r",
            "\t",
            "\n\n\n",
            "\u202egpj.exe\u202c",
            "\u200b",
            "\ufeff",
            "\u2028",
            "\x85",
            "\x80",
            '" onmouseover="x',
            "\ufffd",
            "\U000e0041",
            "👩\u200d💻",
            "❤\ufe0f",
            "]]>",
            "<!--",
            "  ",
            " ",
            "",
        ]
    ),
)


@st.composite
def token_lists(draw: st.DrawFn) -> list[Token]:
    made: list[Token] = []
    for text in draw(st.lists(HOSTILE, max_size=40)):
        size = draw(st.sampled_from([1, 1, 1, 1, 2, 3]))
        kind = draw(st.sampled_from(["text", "text", "special", "added", "byte", "unknown"]))
        for place in range(size):
            group = (place, size) if size > 1 else None
            content = text if place == 0 else ""
            made.append(
                Token(len(made), draw(st.integers(0, 200_012)), kind, content.encode().hex() or "f0", content, group)
            )
    return made


@st.composite
def tilings(draw: st.DrawFn) -> tuple[list[Token], list[Range]]:
    tokens = draw(token_lists())
    inner = draw(st.lists(st.integers(0, len(tokens)), max_size=6))
    cuts = sorted({0, len(tokens), *inner})
    kinds = st.sampled_from(["reasoning", "content", "tool_call", "control", "malformed"])
    return tokens, [Range(draw(kinds), start, end) for start, end in itertools.pairwise(cuts)]


@given(tilings())
def test_strip_holds_exactly_the_decoded_text(drawn: tuple[list[Token], list[Range]]) -> None:
    tokens, ranges = drawn
    read = Reader(strip(tokens, ranges))
    assert read.text == "".join(token.text for token in tokens)
    assert not read.open


@given(tilings())
def test_strip_has_one_element_a_token_in_order_and_no_markup_of_the_models(
    drawn: tuple[list[Token], list[Range]],
) -> None:
    tokens, ranges = drawn
    read = Reader(strip(tokens, ranges, marked=(1, 3), flagged=[(0, 2, "f")]))
    assert [(item["id"], item["data-i"]) for item in read.tokens()] == [
        (f"t{token.index}", str(token.id)) for token in tokens
    ]
    assert {tag for tag, _ in read.tags} <= {"div", "i", "b", "span"}
    names = {name for _, values in read.tags for name in values}
    assert names <= {"id", "class", "data-i", "data-s", "data-b", "data-g", "data-u"}


@given(HOSTILE)
def test_text_elsewhere_is_held_exactly_too(text: str) -> None:
    assert Reader(text_mark(text)).text == text


def test_invisible_characters_are_boxed() -> None:
    html = str(text_mark("a\u202eb\u200bc\x07d\u00a0e\ufe0f"))
    for name in ("U+202E", "U+200B", "U+0007", "U+00A0", "U+FE0F"):
        assert f'data-u="{name}"' in html


def test_tokens_of_one_character_stand_together_with_the_bytes_of_each() -> None:
    tokens = [
        Token(0, 7, "text", "20f09f", " 🍂", (0, 3)),
        Token(1, 8, "text", "8d", "", (1, 3)),
        Token(2, 9, "text", "82", "", (2, 3)),
    ]
    html = str(strip(tokens, [Range("content", 0, 3)]))
    read = Reader(html)
    assert [item["data-b"] for item in read.tokens()] == ["20 F0 9F", "8D", "82"]
    assert html.count("<span") == 1
    assert "\ufffd" not in read.text


def test_bytes_that_are_no_character_are_shown_as_bytes() -> None:
    read = Reader(strip([Token(0, 7, "byte", "f09f", "\ufffd")], [Range("content", 0, 1)]))
    (item,) = read.tokens()
    assert item["data-b"] == "F0 9F"
    assert "bad" in str(item["class"]).split()


def test_replacement_character_that_the_model_wrote_is_not_called_broken() -> None:
    read = Reader(strip([Token(0, 7, "text", "efbfbd", "\ufffd")], [Range("content", 0, 1)]))
    assert "bad" not in str(read.tokens()[0].get("class"))


def test_chunks_end_after_a_line_end_stay_in_their_segment_and_are_bounded() -> None:
    tokens = [Token(i, i, "text", "", "\n" if i % 100 == 99 else " w") for i in range(2000)]
    html = str(strip(tokens, [Range("reasoning", 0, 1500), Range("content", 1500, 2000)]))
    chunks = html.split("</div>")[:-1]
    sizes = [chunk.count("<i ") for chunk in chunks]
    assert sum(sizes) == 2000
    assert max(sizes) <= CHUNK
    assert "soft" not in html
    assert chunks[0].endswith("\n</i>")
    assert sum('class="ch reasoning' in chunk for chunk in chunks) + sum(
        'class="ch content' in chunk for chunk in chunks
    ) == len(chunks)


def test_a_cut_without_a_line_end_says_so() -> None:
    tokens = [Token(i, i, "text", "", " w") for i in range(CHUNK + 1)]
    assert "soft" in str(strip(tokens, [Range("content", 0, len(tokens))]))


def test_special_tokens_and_text_that_spells_them_look_different() -> None:
    tokens = [Token(0, 1, "special", "", "<|im_end|>"), Token(1, 2, "text", "", "<|im_end|>")]
    special, spelled = Reader(strip(tokens, [Range("content", 0, 2)], flagged=[(1, 2, "k")])).tokens()
    assert special["class"] == "x"
    assert spelled["class"] == "k"
