"""Further flags as people write them down: `--flag value` in lines, as on a command line, or one JSON object."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from db.errors import Invalid
from inference.backends.launch.flags import FlagValue, flag_name, kind_of

_TRUTH = {"true": True, "false": False}


def read_flags(text: str, field: str) -> dict[str, Any] | None:
    """The flags of a text; None where it is blank. Values become what their flag takes, where they can be read so.

    Raises:
        Invalid: `not_json` or `not_flags`, with the line at fault. What a flag may be is for `LaunchSpec` to say.
    """
    if not text.strip():
        return None
    if text.lstrip().startswith("{"):
        return _json(text, field)
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line.rstrip("\\ "), comments=True)
        except ValueError as error:
            raise Invalid("not_flags", f"{field}, line {number}: {error}.", field=field) from error
        name = ""
        values: dict[str, list[str]] = {}
        for word in words:
            if word.startswith("--"):
                name, mark, value = word.partition("=")
                if name in values or flag_name(name) in found:
                    raise Invalid("not_flags", f"{field}, line {number}: {name} is given twice.", field=field)
                values[name] = [value] if mark else []
            elif not name:
                raise Invalid(
                    "not_flags",
                    f"{field}, line {number}: {word[:40]!r} belongs to no flag. Write each as --flag value.",
                    field=field,
                )
            else:
                values[name].append(word)
        found |= {flag_name(name): _read(flag_name(name), said) for name, said in values.items()}
    return found


def write_flags(flags: Mapping[str, FlagValue]) -> str:
    """The flags as lines that `read_flags` reads again; a switch that is off keeps its word."""
    lines: list[str] = []
    for name, value in sorted(flags.items()):
        option = "--" + name.replace("_", "-")
        if isinstance(value, list):
            lines.append(" ".join([option, *(shlex.quote(str(item)) for item in value)]))
        elif isinstance(value, bool):
            lines.append(option if value else f"{option} false")
        else:
            lines.append(f"{option} {shlex.quote(str(value))}")
    return "\n".join(lines)


def _json(text: str, field: str) -> dict[str, Any]:
    try:
        read = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Invalid(
            "not_json", f"{field} is not JSON{where}: write one object, or lines like --flag value.", field=field
        ) from error
    return dict(read)


def _no_number(text: str) -> float:
    raise ValueError(text)


def _read(name: str, said: list[str]) -> Any:
    kind = kind_of(name)
    if kind in {"ints", "texts"}:
        return [_number(word) for word in said] if kind == "ints" else said
    if len(said) != 1:
        return said or True  # a switch; too many words are refused by the flag's name
    word = said[0]
    if kind in {"int", "float"}:
        return _number(word)
    return _TRUTH.get(word.lower(), word) if kind == "switch" else word


def _number(word: str) -> int | float | str:
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    return word
