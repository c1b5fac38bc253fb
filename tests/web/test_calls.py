"""Tool-call arguments are laid out without changing a digit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.calls import pretty


def squeezed(text: str) -> str:
    """Without white space outside strings."""
    out, inside, escaped = [], False, False
    for char in text:
        if inside:
            out.append(char)
            inside = not (char == '"' and not escaped)
            escaped = char == "\\" and not escaped
        elif not char.isspace():
            out.append(char)
            inside, escaped = char == '"', False
    return "".join(out)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 2, 7]))
def test_only_white_space_between_json_tokens_changes(value: object, indent: int | None) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=False)
    laid = pretty(raw)
    assert laid is not None
    assert squeezed(laid) == squeezed(raw)
    assert json.loads(laid) == value


def test_large_numbers_repeated_keys_and_odd_spellings_survive() -> None:
    laid = pretty('{"id": 12345678901234567890, "id": 1e400, "x": 0.10000000000000000001, "s": "\\u00e9  \\"q\\""}')
    assert laid == (
        '{\n  "id": 12345678901234567890,\n  "id": 1e400,\n  "x": 0.10000000000000000001,\n  "s": "\\u00e9  \\"q\\""\n}'
    )


@pytest.mark.parametrize("raw", ['{"a": "unclosed', "", "   ", '{"a": 1}"'])
def test_what_has_no_json_tokens_is_left_to_its_raw_text(raw: str) -> None:
    assert pretty(raw) is None


@pytest.mark.parametrize("raw", ["}}}]", "{,,:}", "not json", "[" * 5000])
def test_broken_json_is_laid_out_without_loss_and_without_bursting(raw: str) -> None:
    laid = pretty(raw)
    assert laid is not None
    assert squeezed(laid) == squeezed(raw)
    assert len(laid) < 100 * len(raw) + 100
