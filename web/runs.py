"""What the run pages show beside the services' own views: bars, links, settings with their sources."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inference.runs.views import CategoryCounts, RederivationView, RunView
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


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A flag code's samples before and after a rederive."""

    code: str
    before: int
    after: int

    @property
    def change(self) -> int:
        """How many more there are now."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Rederived:
    """What the last rederive did: its bar while it goes, then the codes whose counts changed and those that kept theirs."""

    job: RederivationView
    bar: tuple[charts.Part, ...]
    changed: tuple[CodeChange, ...]
    kept: tuple[CodeChange, ...]


def rederived(job: RederivationView | None) -> Rederived | None:
    """The last rederive of a run, the greatest changes first; None where there was none."""
    if job is None:
        return None
    codes = dict.fromkeys([*job.before, *job.after]) if job.state == "done" else {}
    rows = [CodeChange(code, job.before.get(code, 0), job.after.get(code, 0)) for code in codes]
    rows.sort(key=lambda row: (-abs(row.change), row.code))
    return Rederived(
        job,
        (charts.Part("clean", 0.0, round(100 * job.done / job.total, 2)),) if job.total else (),
        tuple(row for row in rows if row.change),
        tuple(row for row in rows if not row.change),
    )


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
