"""The command of a launch before there is a start: for people to read, and to copy."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference.backends.launch.checks import check_spec, sglang_python, visible_devices
from inference.backends.launch.command import launch_argv, launch_env, shown_environment
from inference.backends.launch.spec import LaunchSpec
from inference.settings import Settings

PORT, NCCL_PORT, KEY_FILE, MARKER = "<port>", "<nccl port>", "<key file>.yaml", "<marker of the start>"
"""What is known only at a start"""


@dataclass(frozen=True, slots=True)
class Preview:
    """A command as it would be run; `shell` is the same for a POSIX shell."""

    command: tuple[str, ...]
    environment: dict[str, str]
    shell: str


def preview(settings: Settings, spec: LaunchSpec, base_env: Mapping[str, str] | None = None) -> Preview:
    """The command of a checked spec, with what is known only at a start in angle brackets. Reads the model's folder.

    Raises:
        Invalid: the launch cannot work; the field is named.
    """
    spec = check_spec(settings, spec)
    base = os.environ if base_env is None else base_env
    argv = launch_argv(
        spec,
        python=sglang_python(settings),
        config=KEY_FILE,
        port=PORT,
        nccl_port=NCCL_PORT if (spec.dp_size or 1) == 1 else None,
        weight_version=MARKER,
    )
    devices = visible_devices(spec.gpus)
    ours = launch_env(spec, MARKER, {}, devices)
    environment = shown_environment(launch_env(spec, MARKER, base, devices), ours)
    return Preview(argv, environment, shell_text(argv, environment))


def shell_text(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """The command for a POSIX shell, to copy: one flag a line, every word quoted that needs it, its environment before it."""
    lines = [f"{name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
    line: list[str] = []
    for word in argv:
        if word.startswith("--") and line:
            lines.append(" ".join(line))
            line = []
        line.append(shlex.quote(word))
    return " \\\n  ".join([*lines, " ".join(line)])
