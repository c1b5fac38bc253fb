"""For any ids whatever, in any prompt state, of any family: the segments tile the output."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.flags import FLAG_CODES
from inference.quality.inspection import inspect
from inference.tokens.binding import BoundFormat
from inference.tokens.segmentation.segments import KINDS, Segmentation
from tests.support.families import CLOSED, NAMES, OPENED, SILENT, Family

FAMILIES = NAMES
STATES = [OPENED, CLOSED, SILENT]


def hostile(bound: BoundFormat) -> st.SearchStrategy[list[int]]:
    """Delimiters in any order among text, whitespace, padding rows, parts of characters and ids of no vocabulary."""
    known = sorted(
        {*bound.ids.values(), *bound.stop_ids, *(number for ids in bound.spelled.values() for number in ids)}
    )
    delimiters = st.sampled_from(known)
    names = bound.tokenizer.encode('assistant analysis final commentary to=functions.f {"name": <think>')
    text = st.sampled_from([198, 220, 5, 64, 65, 92, 90, 172, 253, 247, 224, 2**32 - 1, 999_999])
    return st.lists(
        st.one_of(delimiters, delimiters, text, st.sampled_from(names), st.integers(0, 2**32 - 1)), max_size=60
    )


def check_tiles(found: Segmentation, n: int) -> None:
    at = 0
    for part in found.segments:
        assert part.kind in KINDS
        assert part.start == at < part.end
        at = part.end
    assert at == n
    for note in found.notes:
        assert 0 <= note.start <= note.end <= n
        assert note.code in FLAG_CODES
    assert found.reasoning_tokens == sum(part.end - part.start for part in found.segments if part.kind == "reasoning")


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_segments_tile_any_ids(families: dict[str, Family], name: str, data: st.DataObject) -> None:
    family = families[name]
    ids = data.draw(hostile(family.bound))
    think = data.draw(st.sampled_from(STATES))
    array = np.array(ids, dtype=np.uint32)
    found = family.bound.segment(family.prompt_ids(think), array)
    check_tiles(found, len(ids))
    joined = [number for part in found.segments for number in ids[part.start : part.end]]
    assert joined == ids


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_inspection_of_any_ids_cites_ranges_inside_them(
    families: dict[str, Family], name: str, data: st.DataObject
) -> None:
    family = families[name]
    ids = data.draw(hostile(family.bound))
    prompt = data.draw(st.one_of(st.none(), hostile(family.bound)))
    finish, matched = data.draw(
        st.sampled_from([("stop", None), ("stop", 5), ("length", None), ("stop", "x"), ("", None)])
    )
    tools = data.draw(st.sampled_from([None, [{"type": "function", "function": {"name": "f", "parameters": {}}}]]))
    found = inspect(family.bound, family.tokenizer, prompt, ids, finish, matched, tools=tools)
    check_tiles(found.segmentation, len(ids))
    for flag in found.flags:
        assert flag.code in FLAG_CODES
        assert flag.start is not None
        assert flag.end is not None
        assert 0 <= flag.start <= flag.end <= len(ids)
        assert flag.message.endswith((".", ")"))
    assert len(found.preview) <= 200
    assert found.kinds == sum({1 << KINDS.index(part.kind) for part in found.segmentation.segments})


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_state_carried_by_the_prompt_is_the_state_of_the_whole(
    families: dict[str, Family], name: str, data: st.DataObject
) -> None:
    """A think block cut between prompt and output is read as if it were whole."""
    family = families[name]
    declared = family.bound.format
    if declared.think is None or not family.bound.thinks:
        return
    thought = data.draw(st.lists(st.sampled_from([64, 65, 66, 198]), min_size=1, max_size=8))
    answer = data.draw(st.lists(st.sampled_from([64, 65, 66]), min_size=1, max_size=8))
    start, close = family.ids(declared.think.open), family.ids(declared.think.close)
    whole = family.bound.segment(family.prompt_ids(), [*start, *thought, *close, *answer])
    cut = family.bound.segment(family.prompt_ids(OPENED), [*thought, *close, *answer])
    kinds = [(part.kind, part.end - part.start) for part in whole.segments]
    assert kinds[1:] == [(part.kind, part.end - part.start) for part in cut.segments]


@pytest.mark.parametrize("name", FAMILIES)
def test_work_grows_with_the_number_of_ids_and_not_faster(families: dict[str, Family], name: str) -> None:
    """Counted in whitespace tests of ids, the only work that could be repeated; adversarial nesting included."""
    family = families[name]
    delimiters = sorted({*family.bound.ids.values(), *(n for ids in family.bound.spelled.values() for n in ids)})
    counted: list[int] = []
    original = family.tokenizer.is_blank

    def counting(ids: np.ndarray) -> bool:
        counted[-1] += len(ids)
        return original(ids)

    family.tokenizer.is_blank = counting  # type: ignore[method-assign]
    try:
        for n in (2_000, 20_000):
            counted.append(0)
            ids = np.random.default_rng(n).choice(np.array([*delimiters, 198, 220], dtype=np.uint32), n)
            found = family.bound.segment(family.prompt_ids(), ids)
            check_tiles(found, n)
            assert counted[-1] <= n
            assert len(found.notes) <= 2 * n
    finally:
        del family.tokenizer.is_blank
