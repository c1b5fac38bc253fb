"""What can be known before a process is spawned: is the model there, may it be read, is there an SGLang to start.

A wrong path costs SGLang nine seconds and a traceback; here it is a sentence that names the field.
"""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from db.errors import Invalid, Unavailable
from inference.backends.host.gpus import survey
from inference.backends.host.process import ask_interpreter
from inference.backends.launch.choices import UNGUARDED_FORMATS
from inference.backends.launch.flags import check_guarded, flag_name
from inference.backends.launch.spec import LaunchSpec, is_hub_id
from inference.settings import Settings, cache_dir

GPU_AGE_S = 2.0
"""A form is checked twice within a moment: GPUs do not come and go in between"""


def check_spec(settings: Settings, spec: LaunchSpec) -> LaunchSpec:
    """The spec with its paths resolved (symlinks followed), so that what was checked is what is started.

    Raises:
        Invalid: with the field at fault; codes model_path_missing, model_path_outside, model_path_not_a_model,
            remote_code_not_allowed, flag_not_allowed, no_such_gpu.
    """
    if spec.trust_remote_code and not settings.allow_remote_code:
        raise Invalid(
            "remote_code_not_allowed",
            "launch.trust_remote_code runs the checkpoint's own Python code: the operator must set "
            "DRAFTMILL_ALLOW_REMOTE_CODE=true first.",
            field="launch.trust_remote_code",
        )
    check_guarded(spec.extra_flags, settings.allowed_flags)
    _check_load_formats(settings, spec)
    visible_devices(spec.gpus)
    changes: dict[str, object] = {"model_path": _checked(settings, spec.model_path, "launch.model_path", "config.json")}
    if spec.tokenizer_path is not None:
        changes["tokenizer_path"] = _checked(
            settings, spec.tokenizer_path, "launch.tokenizer_path", "tokenizer_config.json"
        )
    draft = spec.speculative_draft_model_path
    if draft is not None:
        field = "speculative_draft_model_path"
        changes[field] = _checked(settings, draft, f"launch.{field}", "config.json")
    return spec.model_copy(update=changes)


def visible_devices(uuids: Sequence[str]) -> dict[str, str]:
    """{UUID: its name in CUDA_VISIBLE_DEVICES} of these GPUs, as NVML numbers them now; an instance (MIG) keeps its UUID.

    Blocks for a moment where GPUs are named.

    Raises:
        Invalid: `no_such_gpu`, with those that there are.
    """
    if not uuids:
        return {}
    seen = survey(GPU_AGE_S)
    here = {gpu.uuid: str(gpu.index) if gpu.instance is None else gpu.uuid for gpu in seen.gpus}
    missing = [uuid for uuid in uuids if uuid not in here]
    if missing:
        known = ", ".join(f"{gpu.label} {gpu.uuid}" for gpu in seen.gpus)
        raise Invalid(
            "no_such_gpu",
            f"launch.gpus: this machine has no GPU {missing[0]} ({known or ' '.join(seen.notes) or 'it has none'}). "
            "Choose among those it has, or leave gpus empty.",
            field="launch.gpus",
        )
    return {uuid: here[uuid] for uuid in uuids}


def sglang_python(settings: Settings) -> Path:
    """The interpreter that servers run on: `DRAFTMILL_SGLANG_PYTHON`, else the engine in the cache folder."""
    return settings.sglang_python or cache_dir() / "engine" / "bin" / "python"


def check_interpreter(settings: Settings, *, thoroughly: bool = False) -> Path:
    """The interpreter, known to exist; `thoroughly` asks it whether it finds sglang (a process, some 50 ms).

    Raises:
        Unavailable: `sglang_missing`, with the cure.
    """
    python = sglang_python(settings)
    cure = "Run `make engine`, or set DRAFTMILL_SGLANG_PYTHON to the interpreter of an environment that has sglang."
    if not python.is_file():
        raise Unavailable("sglang_missing", f"There is no Python with SGLang at {python}. {cure}")
    if thoroughly:
        try:
            code, said = ask_interpreter(
                python,
                "import importlib.util as u, sys; sys.exit(0 if u.find_spec('sglang') else 'sglang is not installed')",
            )
        except OSError as error:
            raise Unavailable("sglang_missing", f"{python} cannot be run ({error.strerror}). {cure}") from error
        if code != 0:
            last = said.strip().rsplit("\n", 1)[-1]
            raise Unavailable("sglang_missing", f"{python} cannot import sglang ({last}). {cure}")
    return python


def _check_load_formats(settings: Settings, spec: LaunchSpec) -> None:
    """Hold the formats that do more than read the model's files to what the operator allows, as a guarded flag.

    A draft model has a format of its own, of the same list.
    """
    drafts = "speculative_draft_load_format"
    asked = (
        ("load_format", "launch.load_format", spec.load_format),
        (drafts, f"launch.extra_flags: {drafts}", spec.extra_flags.get(drafts)),
    )
    for name, what, value in asked:
        if value is None or value in UNGUARDED_FORMATS or name in map(flag_name, settings.allowed_flags):
            continue
        raise Invalid(
            "flag_not_allowed",
            f"{what} {value} needs the operator's leave, since it writes beside the model, connects elsewhere, or runs a "
            f"plug-in: name {name} in the setting DRAFTMILL_ALLOWED_FLAGS.",
            field=what.partition(":")[0],
        )


def _checked(settings: Settings, name: str, field: str, needed: str) -> str:
    roots = [root.expanduser().resolve() for root in settings.model_roots]
    path = Path(name)
    with contextlib.suppress(RuntimeError):  # nobody of that name: no path of ours either
        path = path.expanduser()
    if not path.is_absolute():  # relative to a root, as tokenizers are named
        path = next((root / path for root in roots if _is_folder(root / path)), path)
    if not path.is_absolute():
        if is_hub_id(name):
            return name
        raise Invalid(
            "model_path_missing",
            f"{field} names no folder under a model root and is no hub id like org/name: {name!r}.",
            field=field,
        )
    resolved = path.resolve()
    if not any(resolved.is_relative_to(root) for root in roots):
        raise Invalid(
            "model_path_outside",
            f"{field}: {name} does not lie under a model root ({', '.join(map(str, roots))}). "
            "Move the model there, or let the operator add its folder to DRAFTMILL_MODEL_ROOTS.",
            field=field,
        )
    if not _is_folder(resolved):
        raise Invalid("model_path_missing", f"{field}: there is no folder {name}. Check the path.", field=field)
    _check_json(resolved / needed, name, field)
    return str(resolved)


def _is_folder(path: Path) -> bool:
    """Whether it is one; a name that no file system takes is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _check_json(file: Path, name: str, field: str) -> None:
    if not file.is_file():
        raise Invalid(
            "model_path_not_a_model",
            f"{field}: {name} has no {file.name}, so it is not a checkpoint. Point to the folder that holds it.",
            field=field,
        )
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise Invalid(
            "model_path_not_a_model", f"{field}: {file.name} in {name} cannot be read ({error}).", field=field
        ) from error
    if not isinstance(config, dict) or (file.name == "config.json" and "model_type" not in config):
        raise Invalid(
            "model_path_not_a_model",
            f"{field}: {file.name} in {name} names no model_type, so SGLang would not know what it is.",
            field=field,
        )
