"""Our account of SGLang's reasoning parsers against SGLang itself, over the same texts."""

import pytest

from inference.tokens.sglang.reasoning import PARSERS, parse
from tests.second_opinions.conftest import Opinions

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(700)]


def test_every_parser_returns_what_sglang_returns(sglang: Opinions) -> None:
    wrong = []
    for (key, forced, text), theirs in sglang.reasoning.items():
        ours = parse(key, text, forced=forced)[:2]
        if ours != theirs:
            wrong.append((key, forced, text, theirs, ours))
    assert not wrong, f"{len(wrong)} of {len(sglang.reasoning)} differ; the first: {wrong[:3]}"


def test_the_texts_reach_every_parser_and_more_than_one_outcome(sglang: Opinions) -> None:
    for key in PARSERS:
        outcomes = {bool(reasoning) for (asked, *_), (reasoning, _) in sglang.reasoning.items() if asked == key}
        assert outcomes == ({False} if PARSERS[key].adds_open else {True, False}), key
