"""Chat template arguments that do nothing, or not what they say, are told before a run is spent on them."""

import datetime as dt
from typing import Any

import pytest

from inference.tokens.rendering import render
from tests.support.tokenizers import real_tokenizer
from tests.tokens.rendering import USER, Make, codes

TESTS_FALSE = "{{ messages[0].content }}{% if thinking is defined and thinking is false %}</think>{% endif %}"
"""Reads `false` itself (Qwen3)"""
TESTS_TRUTH = (
    "{{ messages[0].content }}{% if thinking is not defined or thinking %}<think>{% else %}</think>{% endif %}"
)
"""Reads anything that counts as true (Kimi K2, GLM)"""
SETS_DEFAULT = "{% if not thinking is defined %}{% set thinking = false %}{% endif %}{{ messages[0].content }}{% if thinking %}<think>{% endif %}"
"""Gives the argument a value of its own where it is left out (DeepSeek V3.1)"""
READS_WORD = "{{ messages[0].content }} effort: {{ thinking | default('medium') }}"
"""Writes what it is given (gpt-oss's effort)"""


@pytest.mark.parametrize(
    ("source", "value", "told"),
    [
        (TESTS_FALSE, True, False),
        (TESTS_FALSE, False, False),
        (TESTS_FALSE, "false", True),
        (TESTS_FALSE, "False", True),
        (TESTS_FALSE, "true", True),
        (TESTS_FALSE, 0, True),
        (TESTS_FALSE, "off", True),
        (TESTS_FALSE, "no", True),
        (TESTS_FALSE, None, False),
        (TESTS_FALSE, 1, False),
        (TESTS_FALSE, "on", False),
        (TESTS_TRUTH, 0, False),
        (TESTS_TRUTH, 1, False),
        (TESTS_TRUTH, "0", True),
        (TESTS_TRUTH, "off", True),
        (TESTS_TRUTH, "yes", False),
        (TESTS_TRUTH, None, True),
        (SETS_DEFAULT, "no", True),
        (SETS_DEFAULT, 0, False),
        (READS_WORD, "high", False),
        (READS_WORD, "no", False),
        (READS_WORD, 0, False),
    ],
)
def test_a_switch_given_as_something_else_is_told_where_it_does_not_do_what_it_says(
    make: Make, source: str, value: Any, told: bool
) -> None:
    assert codes(render(make(source), [USER], kwargs={"thinking": value})) == (["kwarg_type"] if told else [])


@pytest.mark.parametrize(
    ("kwargs", "hint"),
    [
        ({"enable_thinkng": False}, "Is enable_thinking meant?"),
        ({"thinking": False}, ""),
        ({"chat_template_kwargs": {"enable_thinking": False}}, ""),
        ({"strftime_now": "2026-11-30"}, ""),
    ],
)
def test_an_argument_that_the_template_never_reads_is_told(kwargs: dict[str, Any], hint: str) -> None:
    real = real_tokenizer("qwen3")
    found = render(real, [USER], kwargs=kwargs)
    assert codes(found) == ["kwarg_unused"]
    assert next(iter(kwargs)) in found.warnings[0].message
    assert found.warnings[0].message.endswith(hint or "does not read it.")
    assert found.ids.tolist() == render(real, [USER]).ids.tolist()


def test_an_argument_that_only_some_conversations_need_is_read_all_the_same(make: Make) -> None:
    sometimes = "{{ messages[0].content }}{% if tools %}{% if xml %}<tools>{% endif %}{{ tools | tojson }}{% endif %}"
    assert codes(render(make(sometimes), [USER], kwargs={"xml": True})) == []
    assert codes(render(real_tokenizer("qwen3"), [USER], kwargs={"enable_thinking": True})) == []
    assert codes(render(make(SETS_DEFAULT), [USER], kwargs={"thinking": True})) == []


def test_a_word_in_the_templates_text_is_no_argument_that_it_reads(make: Make) -> None:
    wordy = make("{# effort #}effort: set {{ 'effort' }} {{ messages[0].content }}")
    assert codes(render(wordy, [USER], kwargs={"effort": "high"})) == ["kwarg_unused"]


def test_a_row_rendered_on_two_days_has_the_same_ids_with_the_date_given(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers.utils.chat_template_utils as theirs

    dated = make("Current date: {{ strftime_now('%Y-%m-%d') }}\n{{ messages[0].content }}")

    def on(day: int, kwargs: dict[str, Any] | None) -> list[int]:
        class Clock(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> "Clock":
                return cls(2026, 11, day, 12, tzinfo=tz)

        monkeypatch.setattr(theirs, "datetime", Clock)
        return render(dated, [USER], kwargs=kwargs).ids.tolist()

    assert on(29, None) != on(30, None)
    assert on(29, {"strftime_now": "2026-11-28"}) == on(30, {"strftime_now": "2026-11-28"})
