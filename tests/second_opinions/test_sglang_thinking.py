"""Whether SGLang's chat route takes an answer to begin inside reasoning, against what we tell from the prompt's ids."""

import numpy as np
import pytest

from inference.tokens.sglang.reading import asked_for
from inference.tokens.sglang.reasoning import PARSERS
from tests.second_opinions.conftest import Opinions
from tests.second_opinions.templates import SWITCHES
from tests.support.families import Family
from tests.support.tiny_tokenizers import KIMI_TEMPLATE

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(700)]

SILENT_WHEN_OFF = {
    KIMI_TEMPLATE
}  # made up: switched off, its prompt says nothing, so only the request's switch can tell


def test_forced_is_what_the_chat_route_decides(sglang: Opinions, families: dict[str, Family]) -> None:
    assert set(sglang.thinking.values()) == {True, False}
    for switch in SWITCHES:
        family, parser, decided = families[switch.family], PARSERS[switch.key], sglang.thinking[switch]
        state = family.bound.prompt_state(np.array(family.ids(switch.prompt()), dtype=np.uint32))
        thinking = next(iter(switch.asked().values()), None)
        assert asked_for(parser, state, thinking) == decided, switch
        if switch.template not in SILENT_WHEN_OFF or thinking is not False:
            assert asked_for(parser, state) == decided, switch
