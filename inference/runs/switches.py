"""Which checks a run makes: each flag code is on or off by its own default, unless the run's request says otherwise."""

from collections.abc import Collection, Mapping
from typing import Final

from db.errors import Invalid
from inference.quality.flags import FLAG_CODES

ALWAYS_ON: Final = frozenset({"content_lost", "text_unread"})
"""Not checks that one may do without: a fault of the prompt (`render_faults` says what becomes of it), and a check that failed"""


OF_TEXT: Final = frozenset(
    item.code for item in FLAG_CODES.values() if item.needs in {"text", "demand"} and item.code not in ALWAYS_ON
)
"""Raised behind the run, from an answer's text"""
OF_RUN: Final = frozenset(item.code for item in FLAG_CODES.values() if item.needs == "run")
"""Raised behind the run, from all of its answers"""


def is_wanted(off: Collection[str]) -> bool:
    """Whether anything is to be looked for behind a run that leaves these codes out."""
    return not (OF_TEXT | OF_RUN).issubset(off)


def is_switchable(code: str) -> bool:
    """Whether a run may switch the code on or off."""
    return code in FLAG_CODES and code not in ALWAYS_ON


def default_off() -> tuple[str, ...]:
    """The codes that are off unless a run asks for them."""
    return switched_off({})


def switched_off(checks: Mapping[str, bool]) -> tuple[str, ...]:
    """The codes that a run leaves out, in the order flags are shown.

    Args:
        checks: {flag code: on or off}; codes left out have their default.

    Raises:
        Invalid: `check_unknown` or `check_not_switchable`, the field names the code.
    """
    for code in checks:
        if code not in FLAG_CODES:
            raise Invalid(
                "check_unknown", f"There is no flag code {code}; GET /flags lists them.", field=f"checks.{code}"
            )
        if not is_switchable(code):
            raise Invalid("check_not_switchable", f"{code} cannot be switched.", field=f"checks.{code}")
    return tuple(item.code for item in FLAG_CODES.values() if not checks.get(item.code, item.default))
