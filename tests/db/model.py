"""The filter in plain Python, against which the SQL is held."""

from dataclasses import dataclass, field
from datetime import datetime

from db.filters import Condition, Filter
from db.kinds import kinds_in


@dataclass
class Plain:
    """A sample with all that hangs on its current attempt."""

    id: int
    state: str
    category: str
    source_id: str
    prompt_preview: str
    preview: str
    turn: int
    attempts: int
    finish: str | None
    length: int | None
    kinds: int
    updated: datetime
    flags: set[str] = field(default_factory=set)
    tags: set[tuple[str, str]] = field(default_factory=set)
    reviews: dict[str, tuple[str | None, str]] = field(default_factory=dict)

    def values(self, name: str) -> set[str]:
        """What the sample has of a field; empty where it has none."""
        verdicts = {verdict for verdict, _ in self.reviews.values() if verdict}
        speakers = {user for user, (verdict, note) in self.reviews.items() if verdict or note}
        return {
            "state": {self.state},
            "category": {self.category},
            "source_id": {self.source_id},
            "flag": self.flags,
            "tag": {tag for tag, _ in self.tags},
            "verdict": verdicts,
            "reviewer": speakers | {user for _, user in self.tags},
            "finish": {self.finish} if self.finish else set(),
            "kind": set(kinds_in(self.kinds)),
        }[name]


def holds(sample: Plain, condition: Condition) -> bool:
    if condition.field == "q":
        texts = (sample.source_id, sample.prompt_preview, sample.preview)
        found = any(needle.lower() in text.lower() for needle in condition.values for text in texts)
    elif condition.spans:
        number = {"len": sample.length, "turn": sample.turn, "attempts": sample.attempts}[condition.field]
        found = number is not None and any(number in span for span in condition.spans)
    else:
        has = sample.values(condition.field)
        nameless = condition.field in {"flag", "tag", "verdict", "reviewer", "finish", "kind"}
        found = bool(has & set(condition.values)) or (nameless and not has and "none" in condition.values)
    return found != condition.negated


def inside(sample: Plain, flt: Filter) -> bool:
    return all(holds(sample, condition) for condition in flt.conditions)


def ordered(samples: list[Plain], sort: str) -> list[Plain]:
    """By key and id, the same way round; samples without a key last."""
    name = sort.removeprefix("-")
    backwards = sort.startswith("-")

    def key(sample: Plain) -> tuple[object, int]:
        return ({"id": 0, "len": sample.length, "updated": sample.updated}[name], sample.id)

    keyed = [sample for sample in samples if key(sample)[0] is not None]
    rest = [sample for sample in samples if key(sample)[0] is None]
    return [
        *sorted(keyed, key=key, reverse=backwards),
        *sorted(rest, key=lambda sample: sample.id, reverse=backwards),
    ]
