"""Near repeats are found with digits folded; tables, rules, refrains, lists and code are not that."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.checks.near import find_stretches
from tests.quality.reading import cited, read
from tests.support.families import Family

VERSES = [
    "The road goes down to the sea at night.\nThe lamps are lit along the pier.\nA boat comes home without a light.\nNobody asks it to come here.",
    "The bells have rung for half the town.\nThe other half has gone to bed.\nThe rain that started to come down\nis singing on the roofs instead.",
    "My father mended nets and sails.\nMy mother kept the harbour book.\nThe wind has told me all their tales\nand I have nowhere left to look.",
    "And when the morning finds the bay\nthe gulls will wake the fishing fleet.\nThe tide will take the night away\nand leave its silver in the street.",
]
CHORUS = "Oh carry me home, carry me home,\nover the water and over the foam,\nsing me the song that the sailors all know,\nand carry me home before the wind can blow."
SONG = "\n\n".join(f"{verse}\n\n{CHORUS}" for verse in VERSES * 1)

LOOPS = {
    "steps": "\n".join(f"Step {n}: check again." for n in range(1, 301)),
    "in one line": " ".join(f"Step {n}: check again." for n in range(1, 301)),
    "numbered": "\n".join(f"{n}. Let me check that step again." for n in range(1, 60)),
    "bulleted": "\n".join(f"- **Attempt {n}**: it still does not work." for n in range(1, 60)),
    "decimals": "\n".join(f"The value is now close to {n / 7:.3f}." for n in range(1, 100)),
    "paragraphs": "\n\n".join(
        f"Wait, let me reconsider attempt {n}. The answer might be wrong. I should check it again."
        for n in range(1, 40)
    ),
    "in another order": " ".join(
        ("Wait, that is not right. " if n % 3 else "Let me look at it again. ") + f"Try number {n} fails as well."
        for n in range(80)
    ),
    "Chinese": "".join(f"第{n}步：再检查一次这个答案。" for n in range(1, 100)),
    "Japanese": "".join(f"{n}回目の確認をもう一度します。" for n in range(1, 100)),
    "Russian": "\n".join(f"Шаг {n}: проверим ещё раз." for n in range(1, 100)),
    "Thai": "\n".join(f"ขั้นตอนที่ {n} ตรวจสอบอีกครั้ง" for n in range(1, 100)),
    "Korean": "\n".join(f"{n}단계: 다시 한번 확인해 보겠습니다." for n in range(1, 100)),
    "exact, then out of it": "Let me check that again.\n" * 60 + "It is right after all, so the answer is four.",
}
FINE = {
    "table": "| Day | Runs | Note |\n|---|---|---|\n"
    + "\n".join(f"| Day {n} | {n % 5} | keep on going |" for n in range(1, 90)),
    "table without pipes at its ends": "\n".join(f"Row number {n} | all is well | {n * 7}" for n in range(1, 90)),
    "values": "\n".join(f"{n},{n * 3},{n * n}" for n in range(1, 200)),
    "values with words": "\n".join(f"2024-01-{n:02d},active member of the club,{n * n}" for n in range(1, 32)) * 3,
    "tabs": "\n".join(f"sample row of text\t{n}\t{n * n}" for n in range(1, 90)),
    "times table": "\n".join(f"{a} times {b} is {a * b}." for a in range(1, 11) for b in range(1, 11)),
    "arithmetic": "\n".join(f"Now add {n} and {n + 1}: {n} + {n + 1} = {2 * n + 1}." for n in range(1, 90)),
    "measurements": "\n".join(f"In 19{n} the town had {n * 137} people." for n in range(10, 99)),
    "log lines": "\n".join(f"2024-05-01 12:{n:02d}:07 INFO Server started on port {8000 + n}" for n in range(60)),
    "rules": "\n\n".join(["---", "***", "====================", "- - - - -"] * 30),
    "sections with rules": "\n\n---\n\n".join(VERSES * 3),
    "song": SONG,
    "song sung twice": f"{SONG}\n\n{SONG}",
    "villanelle": "\n\n".join(
        f"{VERSES[n % 4].splitlines()[0]}\n{VERSES[(n + 1) % 4].splitlines()[1]}\nDo not go gentle into that good night."
        for n in range(4)
    ),
    "list": "\n".join(
        f"{n}. {verb} the {thing} before you go on to the next step."
        for n, (verb, thing) in enumerate(
            [
                (v, t)
                for v in ("Clean", "Measure", "Paint", "Check", "Move")
                for t in ("door", "wall", "roof", "floor", "lamp")
            ],
            1,
        )
    ),
    "weekly plan": "\n".join(f"Week {n}: run three times and rest well." for n in range(1, 17)),
    "form": "\n\n".join(
        f"**Word {n}**\n{verse}\n\nUse it in a sentence of your own." for n, verse in enumerate(VERSES * 5)
    ),
    "switch": "\n".join(f"    case {n}: return name_of_day({n});" for n in range(1, 90)),
    "fenced code": "```python\n"
    + "\n".join(f"print('line number {n} of the file')\nassert f({n})" for n in range(90))
    + "\n```",
    "fenced prose": "```\n" + "\n".join(f"Step {n}: check again." for n in range(90)) + "\n```",
    "queries": "\n".join(f"INSERT INTO users VALUES ({n}, 'a');" for n in range(90)),
    "assignments": "\n".join(f"x{n} = read the value of sensor {n}" for n in range(90)),
    "braces": "if (a) {\n  return b;\n}\n" * 40,
    "dialogue": "\n".join(
        f"{who}: {what}" for who, what in zip("AB" * 20, ["Yes.", "No.", "Really?", "Well."] * 10, strict=True)
    ),
    "empty": "",
    "blank": "\n" * 2_000,
    "one long line": "word " * 3_000,
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_same_sentences_with_other_numbers_are_flagged_mildly(qwen3: Family, name: str) -> None:
    text = LOOPS[name]
    found = read(qwen3, f"Here it is.\n{text}")
    assert [(flag.code, flag.severity) for flag in found] == [("near_repetition", "warning")]
    quoted = cited(qwen3, f"Here it is.\n{text}", found[0])
    assert len(quoted) > len(text) / 2
    assert "Here it is" not in quoted
    assert "% of the answer" in found[0].message


@pytest.mark.parametrize("name", FINE)
def test_what_only_looks_alike_is_no_near_repetition(qwen3: Family, name: str) -> None:
    assert [flag.code for flag in read(qwen3, FINE[name])] == []
    assert [flag.code for flag in read(qwen3, "Done.", reasoning=FINE[name])] == []


def test_reasoning_counts_as_content_does(qwen3: Family) -> None:
    found = read(qwen3, "Four.", reasoning=f"{VERSES[0]}\n{LOOPS['steps']}\nDone.")
    assert [flag.code for flag in found] == ["near_repetition"]
    quoted = cited(qwen3, "Four.", found[0], reasoning=f"{VERSES[0]}\n{LOOPS['steps']}\nDone.")
    assert quoted.strip().splitlines()[0] == "Step 2: check again."
    assert quoted.strip().splitlines()[-1] == "Step 300: check again."
    assert "The reasoning" in found[0].message or "the reasoning" in found[0].message


def test_an_exact_loop_is_not_told_twice(qwen3: Family) -> None:
    assert read(qwen3, "Now go.\n" + "Let me check that again. " * 80) == ()


@pytest.mark.parametrize(("repeats", "flagged"), [(20, False), (21, True)])
def test_twenty_sentences_met_before_make_a_stretch(repeats: int, flagged: bool) -> None:
    text = "\n".join(f"Step {n}: check again." for n in range(repeats))
    assert bool(list(find_stretches(text))) is flagged


def test_two_stretches_are_two_and_lie_where_they_are() -> None:
    first = "\n".join(f"Step {n}: check again." for n in range(40))
    second = "\n".join(f"Now look at case {n} once more." for n in range(40))
    text = f"{first}\n{VERSES[0]}\n{second}"
    found = list(find_stretches(text))
    assert [text[item.start : item.end].splitlines()[0] for item in found] == [
        "Step 1: check again.",
        "Now look at case 1 once more.",
    ]
    assert [item.repeats for item in found] == [39, 39]


PIECES = st.sampled_from(
    [
        "Step 1: check again.",
        "12",
        "\n",
        ". ",
        "! ",
        "。",
        "```",
        "~~~\n",
        "| a | b |",
        "é",
        "🦀",
        "\ud800",
        "0.",
        "---",
        " ",
        "x=1;",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=120).map("".join) | st.text(max_size=400))
def test_any_text_is_read_and_stretches_lie_within_it(text: str) -> None:
    at = 0
    for item in find_stretches(text):
        assert at <= item.start < item.end <= len(text)
        assert item.example
        at = item.end


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, 10**9))
def test_a_loop_is_found_whatever_stands_around_it(before: str, after: str, first: int) -> None:
    text = f"{before.replace('`', '').replace('~', '')}\n" + "\n".join(
        f"Step {first + n}: check again." for n in range(60)
    )
    found = list(find_stretches(f"{text}\n{after}"))
    assert len(found) == 1
    assert found[0].repeats >= 58


def test_ranges_are_exact_where_characters_are_split_over_ids(qwen3: Family) -> None:
    text = "🦀🦀 é\n" + "\n".join(f"Step {n}: check 🦀 again once more." for n in range(60))
    (found,) = read(qwen3, text)
    assert cited(qwen3, text, found).strip().startswith("Step 1:")
    assert isinstance(found.start, int)
    assert np.array(qwen3.ids(f"<think>A thought.</think>{text}")).size >= (found.end or 0)
