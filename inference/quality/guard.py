"""Watches many samples of one run, and says stop where nearly all of them share a fault that no sampling luck explains.

Two looks at the same faults: the *canary* (the first samples, so that a wrong setting costs minutes and not a night) and a
*rolling window* (so that a server that goes bad at hour three is caught at hour three); both for the whole run and for each
category. A fault must be nearly universal to trip: a model that leaves a third of its answers unclosed is poor, not misconfigured.
"""

from collections import Counter, deque
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from inference.quality.faults import FAULTS, Fault, Outcome

__all__ = ["GuardSettings", "Outcome", "RunGuard", "Trip"]

_CITED = 10


class GuardSettings(BaseModel):
    """When the guard trips. A share of None switches that fault's rule off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: int = Field(50, ge=5, le=10_000, description="The canary: so many first samples are judged together.")
    window: int = Field(
        200, ge=10, le=100_000, description="The rolling window: so many latest samples are judged together."
    )
    category_least: int = Field(
        30, ge=5, le=10_000, description="A category is judged alone from so many samples of it on."
    )
    requests_failing: float | None = Field(0.5, gt=0, le=1, description="Share of requests that fail.")
    reasoning_empty: float | None = Field(
        0.9, gt=0, le=1, description="Share of answers whose due reasoning is empty or missing."
    )
    reasoning_unclosed: float | None = Field(
        0.9, gt=0, le=1, description="Share of finished answers that never close reasoning."
    )
    truncated: float | None = Field(0.9, gt=0, le=1, description="Share of answers cut off at the token limit.")
    content_empty: float | None = Field(
        0.9, gt=0, le=1, description="Share of finished answers without content or call."
    )
    tool_calls_malformed: float | None = Field(
        0.9, gt=0, le=1, description="Share of answers with calls that cannot be read."
    )
    repetition_loop: float | None = Field(0.6, gt=0, le=1, description="Share of answers that end in a loop.")

    def share(self, code: str) -> float | None:
        """The share from which on a fault trips the guard."""
        value: float | None = getattr(self, code)
        return value


class Trip(NamedTuple):
    """Why the run was stopped: a code, a sentence for a person, and a few of the samples that show it."""

    code: str
    message: str
    sample_ids: tuple[int, ...]


class _Seen(NamedTuple):
    """An outcome as a place keeps it: when it came, and which faults it counts for and has."""

    number: int
    sample_id: int
    due: AbstractSet[str]
    bad: AbstractSet[str]


class _Place:
    """The counts of one place (the run, or a category): since its beginning, and within its window."""

    def __init__(self, name: str | None, first: int, window: int) -> None:
        self.name = name
        self.first = first
        self.seen: deque[_Seen] = deque(maxlen=None)
        self.window = window
        self.total = 0
        self.due: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()

    def add(self, seen: _Seen) -> None:
        self.total += 1
        self.seen.append(seen)
        self.due.update(seen.due)
        self.bad.update(seen.bad)
        if len(self.seen) > self.window:
            gone = self.seen.popleft()
            self.due.subtract(gone.due)
            self.bad.subtract(gone.bad)


class RunGuard:
    """One run's guard. Feed it every outcome; the first `Trip` it returns is the reason to pause.

    `muted` are fault codes that somebody has looked at and let pass: a run resumed after a trip goes on with that code muted.
    """

    def __init__(self, settings: GuardSettings, expects_reasoning: bool, muted: AbstractSet[str] = frozenset()) -> None:
        self._settings = settings
        self._faults = [
            fault
            for fault in FAULTS
            if settings.share(fault.code) is not None
            and fault.code not in muted
            and (expects_reasoning or not fault.of_reasoning)
        ]
        self._number = 0
        self._run = _Place(None, settings.first, max(settings.window, settings.first))
        self._categories: dict[str, _Place] = {}

    def observe(self, outcome: Outcome) -> Trip | None:
        """Counts one outcome; a `Trip` where the run, or the outcome's category, now shows a systemic fault."""
        self._number += 1
        due = {fault.code for fault in self._faults if fault.due(outcome)}
        bad = {fault.code for fault in self._faults if fault.code in due and fault.bad(outcome)}
        seen = _Seen(self._number, outcome.sample_id, due, bad)
        places = [self._run]
        if outcome.category:
            least = self._settings.category_least
            name = outcome.category
            place = self._categories.get(name)
            if place is None:
                place = self._categories[name] = _Place(name, least, max(self._settings.window // 2, least))
            places.append(place)
        for place in places:
            place.add(seen)
        for place in places:
            for fault in self._faults:
                if fault.code in bad and self._trips(place, fault):
                    return self._trip(place, fault)
        return None

    def _trips(self, place: _Place, fault: Fault) -> bool:
        share = self._settings.share(fault.code)
        due = place.due[fault.code]
        return share is not None and due >= place.first and place.bad[fault.code] >= share * due

    def _trip(self, place: _Place, fault: Fault) -> Trip:
        bad = [seen for seen in place.seen if fault.code in seen.bad]
        due = place.due[fault.code]
        where = f" in the category “{place.name}”" if place.name else ""
        last = "" if place.total == len(place.seen) else "last "
        since = f"first seen at sample {bad[0].sample_id}, the run's result number {bad[0].number}"
        seen = f"{fault.seen.format(bad=len(bad), due=f'the {last}{due}')}{where} ({since})."
        return Trip(fault.code, f"{seen} {fault.cause} {fault.cure}", tuple(item.sample_id for item in bad[:_CITED]))
