"""The filter in a page's address: chips that remove themselves, form values, and addresses that carry it on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, Request

from api.deps import NOT_FILTER
from db.filters import Filter, parse_query

OWN_NAMES = frozenset({*NOT_FILTER, "prompt", "part", "tfrom", "end"})
"""What pages put into an address beside the filter."""


def page_filter(request: Request) -> Filter:
    """The filter in the query string.

    Raises:
        db.errors.Invalid: an unknown field or a bad value, by name.
    """
    return parse_query(request.query_params.multi_items(), ignore=OWN_NAMES)


PageFilter = Annotated[Filter, Depends(page_filter)]


@dataclass(frozen=True, slots=True)
class Chip:
    """One condition of a filter, and the address without it."""

    label: str
    value: str
    href: str


def chips(flt: Filter, base: str, more: Sequence[tuple[str, str]] = ()) -> tuple[Chip, ...]:
    """One chip a condition; the address keeps the sort and `more`."""
    return tuple(
        Chip(
            label=f"not {condition.field}" if condition.negated else condition.field,
            value=", ".join(condition.written),
            href=address(
                base, [*Filter(tuple(c for c in flt.conditions if c is not condition), flt.sort).to_query(), *more]
            ),
        )
        for condition in flt.conditions
    )


def address(base: str, items: Sequence[tuple[str, str]]) -> str:
    """`base` with a query string, where there is one."""
    return f"{base}?{urlencode(items)}" if items else base


def form_values(flt: Filter) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What the filter form shows, and what it must keep as hidden fields.

    A condition that a control cannot show (negated, any-of, a field without a control) is kept hidden and stays a chip: an
    active condition is never dropped by applying another.
    """
    shown: dict[str, str] = {"sort": flt.sort}
    kept: list[tuple[str, str]] = []
    for condition in flt.conditions:
        single = len(condition.written) == 1 and not condition.negated and "," not in condition.written[0]
        if single and condition.field in CONTROLS and condition.written[0]:
            shown[condition.field] = condition.written[0]
        else:
            kept += Filter((condition,)).to_query()
    return shown, kept


CONTROLS = frozenset({"state", "category", "flag", "tag", "verdict", "finish", "kind", "len", "q"})
"""The fields that the filter form has a control for."""
