"""A launch as it lies in the database: written by an earlier version perhaps, when a rule of today was not one yet."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from db.errors import Invalid
from inference.backends.launch.spec import LaunchSpec


def to_start(launch: Mapping[str, Any] | None) -> LaunchSpec:
    """The launch for a start.

    Raises:
        Invalid: `launch_outdated`, with the field that no rule of today lets through.
    """
    try:
        return LaunchSpec.model_validate(launch or {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(["launch", *map(str, first["loc"])])
        raise Invalid(
            "launch_outdated",
            f"{field}: {first['msg'].removeprefix('Value error, ')}. Change the backend's launch, then start it.",
            field=field,
        ) from error


def as_started(launch: Mapping[str, Any] | None) -> LaunchSpec:
    """The launch of a server that runs already: a fact, whatever the rules of today say of it."""
    try:
        return LaunchSpec.model_validate(launch or {})
    except ValidationError:
        known = {name: value for name, value in (launch or {}).items() if name in LaunchSpec.model_fields}
        return LaunchSpec.model_construct(**{"model_path": "", **known})
