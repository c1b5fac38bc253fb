"""What a launch may hold, and what it would run, as people and scripts see it before there is a start."""

from inference.backends.launch.fields import FIELDS, GROUPS
from inference.backends.launch.flags import ALLOWED, GUARDED, KIND_WORDS, NEVER, flag_name
from inference.backends.launch.preview import preview
from inference.backends.launch.spec import LaunchSpec
from inference.model import View
from inference.settings import Settings


class LaunchGroupView(View):
    """Fields that belong together."""

    key: str
    title: str
    about: str


class LaunchFieldView(View):
    """One field of a launch: what it is for, what happens where it is left out, and what it may be (`choices`, where closed)."""

    name: str
    group: str
    label: str
    kind: str
    default: str
    about: str
    choices: list[str]


class LaunchFlagView(View):
    """One further flag. `policy`: allowed, guarded (passed where the operator names it; `passed` says so), never."""

    name: str
    policy: str
    passed: bool
    takes: str
    """The kind of its value in words; empty where it is never passed"""
    reason: str
    """Why it is guarded, or never passed"""


class LaunchFieldsView(View):
    """Everything that `launch` may hold."""

    groups: list[LaunchGroupView]
    fields: list[LaunchFieldView]
    flags: list[LaunchFlagView]


class LaunchPreviewView(View):
    """The command of a launch; what is known only at a start stands in angle brackets. `shell` is the same, to copy."""

    command: list[str]
    environment: dict[str, str]
    shell: str


def launch_fields(settings: Settings) -> LaunchFieldsView:
    """The fields and flags, with what the operator of this app allows."""
    permitted = set(map(flag_name, settings.allowed_flags))
    flags = [
        LaunchFlagView(name=name, policy="allowed", passed=True, takes=KIND_WORDS[kind], reason="")
        for name, kind in ALLOWED.items()
    ]
    flags += [
        LaunchFlagView(
            name=name, policy="guarded", passed=name in permitted, takes=KIND_WORDS[flag.kind], reason=flag.reason
        )
        for name, flag in GUARDED.items()
    ]
    flags += [
        LaunchFlagView(name=name, policy="never", passed=False, takes="", reason=reason)
        for name, reason in NEVER.items()
    ]
    return LaunchFieldsView(
        groups=[LaunchGroupView.model_validate(group, from_attributes=True) for group in GROUPS],
        fields=[LaunchFieldView.model_validate(field, from_attributes=True) for field in FIELDS.values()],
        flags=sorted(flags, key=lambda flag: flag.name),
    )


def launch_preview(settings: Settings, spec: LaunchSpec) -> LaunchPreviewView:
    """The command that a start of this launch would run. Reads the model's folder.

    Raises:
        Invalid: the launch cannot work; the field is named.
    """
    seen = preview(settings, spec)
    return LaunchPreviewView(command=list(seen.command), environment=seen.environment, shell=seen.shell)
