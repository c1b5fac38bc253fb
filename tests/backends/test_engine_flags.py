"""Every field and flag of a launch is one of the real SGLang's, of the kind and with the choices that its own parser has."""

import json
import os
import subprocess
from functools import cache
from typing import Any

import pytest

from inference.backends.launch.command import SHIM
from inference.backends.launch.fields import FIELDS
from inference.backends.launch.flags import ALLOWED, GUARDED, NEVER
from inference.backends.launch.spec import OURS, LaunchSpec
from tests.support import engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]

_ASK = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
print("\\n" + json.dumps({
    option: {
        "kind": "switch" if action.nargs == 0 else getattr(action.type, "__name__", "str"),
        "many": action.nargs in ("+", "*"),
        "choices": list(action.choices or ()),
    }
    for action in parser._actions for option in action.option_strings
}))
"""


@cache
def options() -> dict[str, dict[str, Any]]:
    """SGLang's own options, by whole name."""
    env = {**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": str(SHIM)}
    said = subprocess.run([engine.engine_python(), "-c", _ASK], env=env, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, Any]] = json.loads(said.stdout.rsplit("\n", 2)[-2])
    return found


def option(name: str) -> dict[str, Any]:
    return options()["--" + name.replace("_", "-")]


def test_every_name_is_an_option_of_sglang() -> None:
    names = {*(set(LaunchSpec.model_fields) - OURS), *ALLOWED, *GUARDED, *NEVER}
    assert not {name for name in names if "--" + name.replace("_", "-") not in options()}


def test_every_field_offers_what_sglangs_parser_takes() -> None:
    for name, field in FIELDS.items():
        if name in OURS:
            continue
        assert (field.kind == "switch") == (option(name)["kind"] == "switch"), name
        if option(name)["choices"]:
            assert set(field.choices) == set(option(name)["choices"]), name


def test_every_flag_takes_what_sglangs_parser_takes() -> None:
    whole = {"int", "human_readable_int"}
    for name, kind in {**ALLOWED, **{name: item.kind for name, item in GUARDED.items()}}.items():
        theirs = option(name)
        assert (kind == "switch") == (theirs["kind"] == "switch"), name
        assert (kind in {"ints", "texts"}) == theirs["many"], name
        assert (kind in {"int", "ints"}) == (theirs["kind"] in whole), name
        assert (kind == "float") == (theirs["kind"] == "float"), name
