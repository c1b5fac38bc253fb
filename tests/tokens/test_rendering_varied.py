"""Hundreds of conversations of every shape through real templates and kinds of them: nothing is flagged that is not so."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.tokens.rendering import render
from tests.support.tokenizers import real_tokenizer
from tests.tokens import rendering as made
from tests.tokens.rendering import Make, codes, tool

BITS = [
    "hi", "a", "42", "1.10", "None", "True", "return None\n", "{'a': 1}", "['x', 'y']", "if x is True:\n    pass", "é", "你好，世界",
    "👩‍👩‍👧", "<b>x</b>", "&amp;", "\\n", '\\"q\\"', "\t", "\r\n", "zq1qz", "7351", "search", "tools", "user", "{{ x }}", "{% if %}", "null",
    "a < b > c", "$x^2$", "| a | b |\n|---|---|\n", "\u200b", "\u00a0",
]  # fmt: skip
NAMES = ["search", "f", "get_time", "a"]

texts = st.lists(st.sampled_from(BITS), min_size=1, max_size=5).map(" ".join).filter(lambda text: text.strip() != "")
values = st.recursive(
    texts | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just(""),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "k", "name"]), inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(st.sampled_from(["city", "n", "q"]), values, max_size=3)


@st.composite
def conversations(
    draw: st.DrawFn, *, calls: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None, list[int]]:
    """(messages, tools, the messages with reasoning before the last question)."""
    tools = [tool(name, draw(texts)) for name in NAMES] if calls else None
    messages: list[dict[str, Any]] = [{"role": "system", "content": draw(texts)}] if draw(st.booleans()) else []
    reasoned = []
    for _ in range(draw(st.integers(0, 3))):
        messages.append({"role": "user", "content": draw(texts)})
        if calls and draw(st.booleans()):
            called = draw(st.lists(st.tuples(st.sampled_from(NAMES), arguments), min_size=1, max_size=2))
            listed = [{"type": "function", "function": {"name": name, "arguments": given}} for name, given in called]
            messages.append({"role": "assistant", "content": draw(st.sampled_from([None, ""])), "tool_calls": listed})
            messages += [{"role": "tool", "content": draw(texts)} for _ in called]
        thought = draw(st.none() | texts)
        if thought is not None:
            reasoned.append(len(messages))
        messages.append({"role": "assistant", "content": draw(texts), "reasoning_content": thought})
    return [*messages, {"role": "user", "content": draw(texts)}], tools, reasoned


SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@SETTINGS
@given(conversations(calls=True))
def test_qwen3_strips_earlier_reasoning_and_loses_nothing(given: tuple[Any, Any, list[int]]) -> None:
    messages, tools, reasoned = given
    found = render(real_tokenizer("qwen3"), messages, tools)
    assert [(item.code, item.where) for item in found.warnings] == [("reasoning_stripped", at) for at in reasoned]


@SETTINGS
@given(conversations(calls=False))
def test_deepseek_v3_loses_nothing_of_a_conversation_without_tools(given: tuple[Any, Any, list[int]]) -> None:
    messages, _, reasoned = given
    found = render(real_tokenizer("deepseek_v3"), messages)
    assert [(item.code, item.where) for item in found.warnings] == [("reasoning_stripped", at) for at in reasoned]


@pytest.mark.parametrize("kind", sorted(made.CALL_TEMPLATES))
def test_no_kind_of_template_is_said_to_lose_what_it_writes(make: Make, kind: str) -> None:
    tokenizer = make(made.CALL_TEMPLATES[kind])

    @settings(SETTINGS, max_examples=60)
    @given(conversations(calls=True))
    def looked_at(given: tuple[Any, Any, list[int]]) -> None:
        messages, tools, _ = given
        assert set(codes(render(tokenizer, messages, tools))) <= {"reasoning_stripped"}

    looked_at()
