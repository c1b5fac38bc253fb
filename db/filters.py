r"""The filter: one grammar for lists, counts, bulk changes, regenerate and export, as people and scripts write it.

In a query string, `category=a,b` is any of, `-tag=x` is not, `len=100..500` is half-open; conditions on different fields
must all hold, and the same field again adds to its any-of. A comma inside a value is written `\,` and a backslash `\\`.
A blank value is no condition (a form's empty box); the empty category is `category=,`. `q` is taken as it stands.
`none` means "has none" for flag, tag, verdict, reviewer, finish and kind. `-x` is the exact complement of `x`: a sample
without a length is in `-len=100..500`. Tags, verdicts and reviewers are those of the sample's current attempt.

In a body the same, as `{"category": ["a", "b"], "-tag": ["x"], "len": "100..500", "sort": "-len"}`: a string reads as in a
query, the items of a list are taken literally. Blanks are refused there: a script that sends one meant something else than
"all samples".

This module knows no SQL: `db.queries.conditions` turns a filter into it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from db.errors import Invalid
from db.kinds import SEGMENT_KINDS

SAMPLE_STATES = ("pending", "in_flight", "done", "failed", "skipped")
VERDICTS = ("good", "bad", "unsure")
NONE = "none"
SORTS = ("id", "-id", "len", "-len", "updated", "-updated")
DEFAULT_SORT = "id"

_CLOSED = {"state": SAMPLE_STATES, "verdict": (*VERDICTS, NONE), "kind": (*SEGMENT_KINDS, NONE)}
_NUMBERS = ("len", "turn", "attempts")
_MAY_BE_EMPTY = ("category", "source_id")
FIELDS = ("state", "category", "flag", "tag", "verdict", "reviewer", "finish", "kind", *_NUMBERS, "q", "source_id")

_LARGEST = 2**31 - 1  # what both databases' integer columns hold
_LONGEST = 1_000  # characters; no value that is stored is longer
_RANGE = re.compile(r"([0-9]{0,10})(?:(\.\.)([0-9]{0,10}))?", re.ASCII)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of numbers; None is open on that side."""

    start: int | None
    stop: int | None

    def __str__(self) -> str:
        if self.start is not None and self.stop == self.start + 1:
            return str(self.start)
        return f"{'' if self.start is None else self.start}..{'' if self.stop is None else self.stop}"

    def __contains__(self, number: int) -> bool:
        return (self.start is None or number >= self.start) and (self.stop is None or number < self.stop)


@dataclass(frozen=True, slots=True)
class Condition:
    """One field: any of `values` (any of `spans` where the field is a number), or none of them when negated."""

    field: str
    negated: bool
    values: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()

    @property
    def name(self) -> str:
        """The field as it is written, with `-` when negated."""
        return f"-{self.field}" if self.negated else self.field

    @property
    def written(self) -> tuple[str, ...]:
        """The values, unescaped, in canonical spelling."""
        return tuple(map(str, self.spans)) if self.spans else self.values


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold, and an order. Equal filters are equal values."""

    conditions: tuple[Condition, ...] = ()
    sort: str = DEFAULT_SORT

    @property
    def is_empty(self) -> bool:
        """Whether every sample passes."""
        return not self.conditions

    def to_query(self) -> list[tuple[str, str]]:
        """Query items that `parse_query` reads back as this filter."""
        items: list[tuple[str, str]] = []
        for condition in self.conditions:
            if condition.field == "q":
                items.extend((condition.name, value) for value in condition.values)
            else:
                joined = ",".join(map(_escape, condition.written))
                items.append((condition.name, joined or ","))
        return items if self.sort == DEFAULT_SORT else [*items, ("sort", self.sort)]

    def to_json(self) -> dict[str, object]:
        """A JSON object that `parse_body` reads back as this filter."""
        body: dict[str, object] = {condition.name: list(condition.written) for condition in self.conditions}
        return body if self.sort == DEFAULT_SORT else {**body, "sort": self.sort}


def parse_query(items: Iterable[tuple[str, str]], *, ignore: Iterable[str] = ()) -> Filter:
    """Read a filter from a query string's items, in any order; names in `ignore` (paging and the like) are passed over.

    Raises:
        Invalid: `filter_unknown_field` or `filter_bad_value`, with `field` as it was written.
    """
    skipped = frozenset(ignore)
    draft = _Draft()
    for name, text in items:
        if name in skipped:
            continue
        if name == "sort":
            draft.set_sort(text)
        else:
            draft.add_text(name, text)
    return draft.finish()


def parse_body(data: Mapping[str, object]) -> Filter:
    """Read a filter from a JSON object.

    Raises:
        Invalid: `filter_unknown_field` or `filter_bad_value`, with `field` as it was written.
    """
    draft = _Draft()
    for name, value in data.items():
        if name == "sort":
            draft.set_sort(value)
        elif isinstance(value, str):
            if not value:
                raise _blank(name)
            draft.add_text(name, value)
        elif isinstance(value, list | tuple):
            _field(name)
            if not value:
                raise _blank(name)
            for item in value:
                draft.add(name, _scalar(name, item))
        else:
            draft.add(name, _scalar(name, value))
    return draft.finish()


@dataclass(slots=True)
class _Draft:
    """Conditions while they are read: (field, negated) → values, each once."""

    values: dict[tuple[str, bool], dict[str, None]] = field(default_factory=dict)
    spans: dict[tuple[str, bool], dict[Span, None]] = field(default_factory=dict)
    sort: str = DEFAULT_SORT

    def add_text(self, name: str, text: str) -> None:
        key = _field(name)
        if not text:
            return
        values = [text] if key[0] == "q" else _split(text)
        if key[0] not in _MAY_BE_EMPTY:
            values = [value for value in values if value] or [""]
        for value in values:
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        key = _field(name)
        if key[0] in _NUMBERS:
            self.spans.setdefault(key, {})[_span(name, value)] = None
        else:
            self.values.setdefault(key, {})[_checked(name, key[0], value)] = None

    def set_sort(self, value: object) -> None:
        if value in {"", None}:
            return
        if value not in SORTS:
            raise Invalid(
                "filter_bad_value", f"There is no sort {value!r}; use one of {', '.join(SORTS)}.", field="sort"
            )
        self.sort = str(value)

    def finish(self) -> Filter:
        conditions = []
        for name in FIELDS:
            for negated in (False, True):
                values = tuple(sorted(self.values.get((name, negated), ())))
                spans = tuple(sorted(self.spans.get((name, negated), ()), key=_span_order))
                if values or spans:
                    conditions.append(Condition(name, negated, values, spans))
        return Filter(tuple(conditions), self.sort)


def _field(name: str) -> tuple[str, bool]:
    negated = name.startswith("-")
    field_name = name[1:] if negated else name
    if field_name not in FIELDS:
        raise Invalid(
            "filter_unknown_field",
            f"A filter has no field {name[:80]!r}; it knows {', '.join(FIELDS)}, each also with - before it, and sort.",
            field=name,
        )
    return field_name, negated


def _blank(name: str) -> Invalid:
    return Invalid("filter_bad_value", f"{name} is blank: name a value, or leave the field out.", field=name)


def _checked(name: str, field_name: str, value: str) -> str:
    if not value and field_name not in _MAY_BE_EMPTY:
        raise _blank(name)
    if len(value) > _LONGEST:
        raise Invalid("filter_bad_value", f"A value of {name} is longer than {_LONGEST} characters.", field=name)
    if _UNSTORABLE.search(value):
        raise Invalid(
            "filter_bad_value", f"A value of {name} holds NUL or half a surrogate pair; no text here does.", field=name
        )
    allowed = _CLOSED.get(field_name)
    if allowed and value not in allowed:
        raise Invalid("filter_bad_value", f"{name} cannot be {value!r}; use {', '.join(allowed)}.", field=name)
    return value


def _span(name: str, value: str) -> Span:
    match = _RANGE.fullmatch(value)
    if match is None or value in {"", ".."}:
        raise Invalid(
            "filter_bad_value",
            f"{name} cannot be {value!r}; write 100..500 (half-open), 100.., ..500 or 100.",
            field=name,
        )
    first, dots, last = match.groups()
    start = int(first) if first else None
    stop = (int(last) if last else None) if dots else int(first) + 1
    if max(start or 0, (stop or 1) - 1) > _LARGEST:
        raise Invalid("filter_bad_value", f"{name} goes up to {_LARGEST}, not {value}.", field=name)
    if start is not None and stop is not None and start >= stop:
        raise Invalid("filter_bad_value", f"{name}={value} is an empty range: its end is not part of it.", field=name)
    return Span(start, stop)


def _span_order(span: Span) -> tuple[int, int]:
    return (-1 if span.start is None else span.start, _LARGEST + 2 if span.stop is None else span.stop)


def _scalar(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) <= _LARGEST else "too large"
    raise Invalid(
        "filter_bad_value", f"{name} takes text, numbers or a list of them, not {type(value).__name__}.", field=name
    )


def _split(text: str) -> list[str]:
    """Split at commas that no backslash escapes, and unescape."""
    parts = [""]
    escaped = False
    for character in text:
        if escaped:
            parts[-1] += character if character in ",\\" else "\\" + character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            parts.append("")
        else:
            parts[-1] += character
    if escaped:
        parts[-1] += "\\"
    return parts


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,")
