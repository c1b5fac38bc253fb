"""What the run pages show beside the services' own views: bars, links, settings with their sources."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inference.runs.views import CategoryCounts, RunView
from web import charts, words


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list."""

    run: RunView
    bar: tuple[charts.Part, ...]


def rows(runs: Iterable[RunView]) -> list[RunRow]:
    """Runs with their bars."""
    return [RunRow(run, charts.bar(run.counts)) for run in runs]


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """A category's progress, and its samples' address."""

    counts: CategoryCounts
    bar: tuple[charts.Part, ...]
    href: str


def category_rows(run: RunView) -> list[CategoryRow]:
    """The categories of a run, the largest first."""
    ordered = sorted(run.categories, key=lambda item: (-item.total, item.category))
    return [
        CategoryRow(item, charts.bar(item), f"/runs/{run.id}/samples?category={words.filter_value(item.category)}")
        for item in ordered
    ]


@dataclass(frozen=True, slots=True)
class Setting:
    """One frozen setting, and where its value came from."""

    name: str
    value: Any
    source: str


_ELSEWHERE = frozenset({"sources", "prompt_set_id", "backend_ids"})


def settings(frozen: Mapping[str, Any]) -> list[Setting]:
    """A run's settings in reading order, nested ones by dotted name; unset ones are left out."""
    sources = frozen.get("sources") or {}
    found: list[Setting] = []
    for name, value in frozen.items():
        if name in _ELSEWHERE or value is None:
            continue
        if name == "sampling" and isinstance(value, Mapping):
            found += [
                Setting(f"sampling.{key}", inner, str(sources.get(f"sampling.{key}") or sources.get(key) or ""))
                for key, inner in value.items()
                if inner is not None and inner != []
            ]
        else:
            found.append(Setting(name, value, str(sources.get(name) or "")))
    return found
