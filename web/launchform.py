"""The form of a launch: its fields in groups, read from and filled into a form, and the machine's GPUs to choose from.

Every field comes from the table that REST shows too (`launch/fields.py`); nothing about one is written here again.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from db.errors import Invalid
from inference.backends.host.gpus import Survey, survey
from inference.backends.launch.fields import FIELDS, GROUPS, FieldAbout, Group
from inference.backends.launch.flaglines import read_flags, write_flags
from inference.backends.launch.spec import LaunchSpec
from inference.backends.offers import launch_preview
from inference.settings import Settings
from web.forms import Fields

PREFIX: Final = "launch."
_APART: Final = frozenset({"gpus", "extra_flags"})
_MODES: Final = {"number": "numeric", "amount": "text", "decimal": "decimal"}
_GPU_AGE_S: Final = 5.0
_MOST_NODES: Final = 8
_FITS: Final = 22
"""Letters that a field shows of its default; longer ones are told below it as well"""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field: `name` as the form sends it, `hint` below it, `attrs` of its input, `options` to choose from."""

    name: str
    about: FieldAbout
    hint: str
    attrs: Mapping[str, str]
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One group of fields; `shown` where it starts open, `given` says how many of its fields are filled in."""

    group: Group
    fields: tuple[FormField, ...]
    shown: bool
    given: int


@dataclass(frozen=True, slots=True)
class GpuBox:
    """A GPU to tick: `uuid`, what it is, how much memory is free."""

    uuid: str
    label: str
    name: str
    free: str
    ticked: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A command to read and copy; `calls` make the parts of the other nodes."""

    shell: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The GPUs to tick; none where there are none and none are chosen."""

    boxes: tuple[GpuBox, ...]
    notes: tuple[str, ...]


def read_launch(form: Fields) -> dict[str, Any]:
    """What the form says of the launch, as REST would send it.

    Raises:
        Invalid: the further flags cannot be read.
    """
    launch: dict[str, Any] = form.tree(f"{PREFIX}{name}" for name in FIELDS if name not in _APART).get("launch", {})
    gpus = form.all(f"{PREFIX}gpus")
    if gpus:
        launch["gpus"] = gpus
    name = f"{PREFIX}extra_flags"
    flags = read_flags(form.text(name), name)
    if flags is not None:
        launch["extra_flags"] = flags
    return launch


def shown_command(settings: Settings, form: Fields) -> Shown:
    """The command of the form's launch. Reads the model's folder.

    Raises:
        Invalid: the launch cannot work.
        ValidationError: a field is not what it must be; its place is relative to the launch.
    """
    launch = read_launch(form)
    spec = LaunchSpec.model_validate(launch)
    dumped = spec.model_dump(mode="json", exclude_defaults=True)
    return Shown(launch_preview(settings, spec).shell, _node_calls(form.get("name"), dumped))


def first_command(settings: Settings, launch: Mapping[str, Any]) -> str:
    """The command that a first start would run; empty where the launch cannot work, which a start says in words."""
    try:
        return launch_preview(settings, LaunchSpec.model_validate(launch)).shell
    except (ValidationError, Invalid):
        return ""


def form_of(launch: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """A stored launch as the form would have sent it."""
    try:
        known = LaunchSpec.model_validate(launch).model_dump(mode="json", exclude_defaults=True)
    except ValidationError:
        known = dict(launch)  # a rule has come since: shown as it is, to be mended
    items: list[tuple[str, str]] = []
    for name, value in known.items():
        if name == "gpus":
            items += [(f"{PREFIX}gpus", str(uuid)) for uuid in value]
        elif name == "extra_flags":
            items.append((f"{PREFIX}extra_flags", write_flags(value)))
        elif value is not None and value is not False:
            items.append((f"{PREFIX}{name}", "1" if value is True else _written(value)))
    return tuple(items)


def _written(value: object) -> str:
    """A value as a form sends it: a number to its last digit, or saving another field would change it."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def at_fields(errors: Mapping[str, str]) -> dict[str, str]:
    """Errors by the field of the form they belong to: `launch.gpus.0` is told at `launch.gpus`."""
    found: dict[str, str] = {}
    for name, sentence in errors.items():
        head = ".".join(name.split(".")[:2]) if name.startswith(PREFIX) else name
        found.setdefault(head, sentence)
    return found


def sections(form: Fields, errors: Mapping[str, str]) -> tuple[Section, ...]:
    """The groups of fields; open are those that people see first, those with something in them, and those with a fault."""
    made: list[Section] = []
    for group in GROUPS:
        fields = tuple(_field(about) for about in FIELDS.values() if about.group == group.key)
        given = sum(bool(form.get(field.name)) for field in fields)
        faulty = any(errors.get(field.name) for field in fields)
        made.append(Section(group, fields, group.open or given > 0 or faulty, given))
    return tuple(made)


def gpu_choice(form: Fields) -> GpuChoice:
    """The GPUs of this machine, and chosen ones that it has not. Blocks while the driver answers."""
    seen: Survey = survey(_GPU_AGE_S)
    chosen = form.all(f"{PREFIX}gpus")
    boxes = [
        GpuBox(
            gpu.uuid,
            gpu.label,
            gpu.name,
            ""
            if gpu.total_mib is None or gpu.used_mib is None
            else f"{(gpu.total_mib - gpu.used_mib) / 1024:,.0f} of {gpu.total_mib / 1024:,.0f} GiB free",
            gpu.uuid in chosen,
        )
        for gpu in seen.gpus
    ]
    here = {box.uuid for box in boxes}
    boxes += [GpuBox(uuid, uuid, "not on this machine now", "", True) for uuid in chosen if uuid not in here]
    return GpuChoice(tuple(boxes), seen.notes)


def _node_calls(name: str, launch: Mapping[str, Any]) -> tuple[str, ...]:
    """For each other node, the call that makes its part there: the same launch, with its own rank and its own GPUs."""
    nodes, rank = int(launch.get("nnodes") or 1), int(launch.get("node_rank") or 0)
    calls: list[str] = []
    for other in range(min(nodes, _MOST_NODES)):
        if other == rank:
            continue
        theirs = {key: value for key, value in launch.items() if key != "gpus"} | {"node_rank": other}
        body = json.dumps({"name": f"{name or 'server'} node {other}", "kind": "managed", "launch": theirs})
        calls.append(
            'curl -H "Authorization: Bearer $DRAFTMILL_TOKEN" -H "Content-Type: application/json" '
            f'-d {shlex.quote(body)} "$NODE_{other}/api/v1/backends"'
        )
    return tuple(calls)


def _field(about: FieldAbout) -> FormField:
    attrs = {"placeholder": about.default} if about.default else {}
    if about.kind in _MODES:
        attrs["inputmode"] = _MODES[about.kind]
    if about.kind == "path":
        attrs["list"] = "models"
    options = tuple((choice, choice) for choice in about.choices)
    long = len(about.default) > _FITS
    hint = f"{about.about} Left empty: {about.default}." if long else about.about
    return FormField(f"{PREFIX}{about.name}", about, hint, attrs, options)
