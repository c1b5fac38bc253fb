"""SGLang is asked once for all that is to be compared: its import takes longer than its answers."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from inference.backends.engine import SHIM_DIR
from inference.tokens.sglang.reasoning import PARSERS
from tests.second_opinions.callcorpus import GRAMMARS, TOOLS
from tests.second_opinions.corpus import texts
from tests.second_opinions.templates import SWITCHES, Switch
from tests.support.engine import engine_python

SCRIPT = Path(__file__).with_name("sglang_answers.py")
TEXTS_OF_A_KEY = 400
TEXTS_OF_HARMONY = 4_000
ALWAYS_FORCED = {"k2_horizon"}  # SGLang refuses to make this one unforced
PATIENCE_S = 600


@dataclass(frozen=True)
class Opinions:
    """`reasoning`: (reasoning, content) by (key, forced, text). `calls`: (name, arguments as text) each, by (key, text).

    `thinking`: whether the chat route says that thinking is on.
    """

    reasoning: dict[tuple[str, bool, str], tuple[str, str]]
    calls: dict[tuple[str, str], list[tuple[str | None, str]]]
    thinking: dict[Switch, bool]


@pytest.fixture(scope="session")
def sglang() -> Opinions:
    """What SGLang's parsers say; skips loudly where the engine is not installed."""
    python = engine_python()
    reasoning = [
        (key, forced, text)
        for key in sorted(PARSERS)
        for forced in ((True,) if key in ALWAYS_FORCED else (True, False))
        for text in texts(key, TEXTS_OF_HARMONY if key == "gpt-oss" else TEXTS_OF_A_KEY)
    ]
    calls = [(grammar.key, text) for grammar in GRAMMARS.values() for _, text in grammar.samples()]
    asked = {
        "reasoning": reasoning,
        "calls": calls,
        "tools": TOOLS,
        "thinking": [(switch.key, switch.template, switch.asked()) for switch in SWITCHES],
    }
    done = subprocess.run(
        [str(python), str(SCRIPT)],
        input=json.dumps(asked).encode(),
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(SHIM_DIR), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    said = json.loads(done.stdout)
    return Opinions(
        {key: (left, right) for key, (left, right) in zip(reasoning, said["reasoning"], strict=True)},
        {key: [(name, text) for name, text in found] for key, found in zip(calls, said["calls"], strict=True)},
        dict(zip(SWITCHES, said["thinking"], strict=True)),
    )
