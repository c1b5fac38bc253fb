"""What a check is: a small pure function, with the codes of the flags it can raise."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from inference.quality.flags import Flag

Given = TypeVar("Given")
_MOST_OF_A_CODE = 20


@dataclass(frozen=True)
class Check(Generic[Given]):
    """A check, declared: `run` takes an answer and returns its flags, all of them of `codes`.

    `needs` says what the function is given: `ids`, an `Answer`; `text` and `demand`, a `Reading`.
    """

    name: str
    codes: frozenset[str]
    needs: Literal["ids", "text", "demand"]
    run: Callable[[Given], list[Flag]]


def run_checks(checks: Iterable[Check[Given]], given: Given, off: AbstractSet[str]) -> list[Flag]:
    """What the checks find, in their order. A check all of whose codes are `off` is not run; other flags of such codes are dropped.

    Of each code a check's first few flags are kept; the last of them says how many more there were.
    """
    flags: list[Flag] = []
    for check in checks:
        if off and check.codes <= off:
            continue
        found = check.run(given)
        if off:
            found = [item for item in found if item.code not in off]
        flags += first_few(found)
    return flags


def first_few(flags: Sequence[Flag]) -> Sequence[Flag]:
    """The flags without those past the first 20 of a code; the last that is kept says how many more there were."""
    if len(flags) <= _MOST_OF_A_CODE:
        return flags
    kept: dict[str, list[Flag]] = {}
    for item in flags:
        kept.setdefault(item.code, []).append(item)
    out: list[Flag] = []
    for items in kept.values():
        out += items[:_MOST_OF_A_CODE]
        more = len(items) - _MOST_OF_A_CODE
        if more > 0:
            out[-1] = out[-1]._replace(message=f"{out[-1].message} (and {more} more like it)")
    return out
