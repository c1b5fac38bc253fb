"""Our account of SGLang's reasoning parsers against SGLang itself, over the same texts."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from inference.backends.engine import SHIM_DIR
from inference.tokens.sglang.reasoning import PARSERS, parse
from tests.second_opinions.corpus import texts
from tests.support.engine import engine_python

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("sglang_reasoning.py")
TEXTS_OF_A_KEY = 400
TEXTS_OF_HARMONY = 4_000
ALWAYS_FORCED = {"k2_horizon"}  # SGLang refuses to make this one unforced
PATIENCE_S = 600


@pytest.mark.timeout(PATIENCE_S + 60)
def test_every_parser_returns_what_sglang_returns() -> None:
    python = engine_python()
    asked = [
        (key, forced, text)
        for key in sorted(PARSERS)
        for forced in ((True,) if key in ALWAYS_FORCED else (True, False))
        for text in texts(key, TEXTS_OF_HARMONY if key == "gpt-oss" else TEXTS_OF_A_KEY)
    ]
    done = subprocess.run(
        [str(python), str(SCRIPT)],
        input=json.dumps(asked).encode(),
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(SHIM_DIR), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    theirs = json.loads(done.stdout)
    assert len(theirs) == len(asked)
    wrong = []
    for (key, forced, text), (reasoning, content) in zip(asked, theirs, strict=True):
        ours = parse(key, text, forced=forced)
        if (ours.reasoning, ours.content) != (reasoning, content):
            wrong.append((key, forced, text, (reasoning, content), ours[:2]))
    assert not wrong, f"{len(wrong)} of {len(asked)} differ; the first: {wrong[:3]}"
    assert {reasoning for reasoning, _ in theirs} > {"", "plan"}
