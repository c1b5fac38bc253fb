"""From a typed launch spec to the exact argv and environment of an SGLang server. Pure: it touches neither disk nor process.

Rules that the command keeps:
- full flag names only: argparse's abbreviations are on in SGLang, and some are ambiguous;
- loopback, our own ports, a weight version of its own for each start, by which an answer proves which process gave it;
- the API key goes into a `--config` file (0600, two-token form, `.yaml`: SGLang ignores `--config=FILE` silently), so that
  it shows neither in `ps` nor in what people see of the command;
- GPUs are named by UUID in a spec and by NVML's number in CUDA_VISIBLE_DEVICES (in PCI order): SGLang's all-reduce reads
  numbers there, and with a UUID goes on without its fast path, with no more than a warning;
- no proxy variable reaches the child: its warm-up would ask the proxy for 127.0.0.1 and kill the server after two minutes.
"""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from inference.backends import engine
from inference.backends.host.identity import START_VARIABLE
from inference.backends.launch.flags import flag_argv
from inference.backends.launch.ports import LOOPBACK, PortBlock
from inference.backends.launch.spec import OURS, LaunchSpec, is_hub_id

SHIM = Path(engine.__file__).parent / "shim"
"""What lets the unmodified SGLang wheel run on a CPU; on PYTHONPATH of CPU servers only."""

KEEP_ALIVE_S = 120
"""How long the server keeps an idle connection; its own 5 s closes pooled ones under the client's hands."""

_DROPPED = frozenset(
    {"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy", "pythonpath", "pythonhome", "virtual_env"}
)

_MATTERS = re.compile(r"(SGLANG|SGL|NCCL|CUDA|HF|TORCH|PYTORCH|TRITON|FLASHINFER|GLOO|OMP|TRANSFORMERS|SAFETENSORS)_")
"""Of what the server inherits, what changes how it runs, and is therefore shown."""

_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """What to execute. `config_text` holds the key and goes into the 0600 file that argv names; the rest holds no secret."""

    argv: tuple[str, ...]
    env: dict[str, str]
    config_text: str
    shown: tuple[str, ...]
    shown_env: dict[str, str]
    """What of the environment matters, for people: ours, and what is inherited and changes the server; no secret"""


def build_command(
    spec: LaunchSpec,
    *,
    python: Path,
    ports: PortBlock,
    key_config_path: Path,
    weight_version: str,
    api_key: str,
    base_env: Mapping[str, str] | None = None,
    devices: Mapping[str, str] | None = None,
) -> LaunchCommand:
    """The command of one start.

    Args:
        spec: as asked for; Draftmill's own defaults are added here.
        python: the interpreter that has sglang.
        ports: ours, checked to be free.
        key_config_path: where `config_text` will lie; must end in `.yaml`.
        weight_version: unique to this start.
        api_key: letters and digits only.
        base_env: the environment to start from; the process's own where None.
        devices: {GPU's UUID: its name in CUDA_VISIBLE_DEVICES}; a UUID that is not in it stands for itself.

    Raises:
        ValueError: the config path's ending or the key's letters would make SGLang ignore or misread the file.
    """
    if key_config_path.suffix != ".yaml":
        raise ValueError(f"SGLang reads a --config file only if its name ends in .yaml: {key_config_path}")
    if not api_key.isalnum():
        raise ValueError("the API key must be letters and digits, or SGLang's argument parser may misread it")
    argv = launch_argv(
        spec,
        python=python,
        config=str(key_config_path),
        port=str(ports.http),
        nccl_port=None if ports.nccl is None else str(ports.nccl),
        weight_version=weight_version,
    )
    base = os.environ if base_env is None else base_env
    env = launch_env(spec, weight_version, base, devices or {})
    ours = launch_env(spec, weight_version, {}, devices or {})
    return LaunchCommand(
        argv=argv,
        env=env,
        config_text=f'api-key: "{api_key}"\n',
        shown=argv,
        shown_env=shown_environment(env, ours),
    )


def launch_argv(
    spec: LaunchSpec, *, python: Path, config: str, port: str, nccl_port: str | None, weight_version: str
) -> tuple[str, ...]:
    """The command line: SGLang's flags in the spec's order, then the further ones, then ours."""
    spec = spec.resolved()
    argv = [str(python), "-m", "sglang.launch_server", "--config", config]
    for name in LaunchSpec.model_fields:
        value = getattr(spec, name)
        if value is not None and name not in OURS:
            argv += flag_argv(name, value)
    for name, value in sorted(spec.extra_flags.items()):
        argv += flag_argv(name, value)
    argv += ["--host", LOOPBACK, "--port", port]
    if nccl_port is not None:
        argv += ["--nccl-port", nccl_port]
    return (*argv, "--weight-version", weight_version)


def launch_env(
    spec: LaunchSpec, weight_version: str, base: Mapping[str, str], devices: Mapping[str, str]
) -> dict[str, str]:
    """The environment: what we have, less proxies and our own settings, and what the server needs."""
    env = {
        name: value
        for name, value in base.items()
        # Draftmill's own settings hold secrets (the admin's token, the database's password) that a server has no use for
        if name.lower() not in _DROPPED and not name.upper().startswith("DRAFTMILL_")
    }
    env |= {
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": "127.0.0.1,localhost,::1",
        "no_proxy": "127.0.0.1,localhost,::1",
        "SGLANG_TIMEOUT_KEEP_ALIVE": str(KEEP_ALIVE_S),
        # a crash then ends the process at once instead of hanging for a minute over dumps
        "SGLANG_PYSPY_DUMP_BEFORE_CRASH": "false",
        "SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "false",
        "SPT_NOENV": "1",  # keeps setproctitle from overwriting the environment that the next line is read back from
        START_VARIABLE: weight_version,
    }
    if spec.gpus:
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's order: without it CUDA puts the fastest first
        env["CUDA_VISIBLE_DEVICES"] = ",".join(devices.get(uuid, uuid) for uuid in spec.gpus)
    if not is_hub_id(spec.model_path) and (spec.tokenizer_path is None or not is_hub_id(spec.tokenizer_path)):
        env["HF_HUB_OFFLINE"] = "1"
    if spec.device == "cpu":
        env["SGLANG_USE_CPU_ENGINE"] = "1"
        env["PYTHONPATH"] = str(SHIM)
        # spinning OpenMP barriers collapse (280 to 10 tokens/s) as soon as anything else uses the cores
        env.setdefault("OMP_NUM_THREADS", "1")
    return env


def shown_environment(env: Mapping[str, str], ours: Collection[str]) -> dict[str, str]:
    """What people see of an environment: what is ours, and what is inherited and changes how a server runs; no secret."""
    return {
        name: _USER_IN_URL.sub("***@", value)
        for name, value in sorted(env.items())
        if (name in ours or _MATTERS.match(name)) and not _SECRET.search(name)
    }
