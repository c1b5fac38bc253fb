"""The rules of the readers that exports are for, in our own words: each returns the rows or says which rule is broken."""

import json
from pathlib import Path
from typing import Any


class RuleError(Exception):
    pass


def _flat_ids(row: dict[str, Any]) -> tuple[list[int], list[int]]:
    ids, mask = row["input_ids"], row["loss_mask"]
    for name, values in (("input_ids", ids), ("loss_mask", mask)):
        if not isinstance(values, list) or any(type(value) is not int for value in values):
            raise RuleError(f"{name} is not a flat list of integers")
    if not ids or len(ids) != len(mask):
        raise RuleError(f"{len(ids)} ids, {len(mask)} mask values")
    if set(mask) - {0, 1}:
        raise RuleError("a mask value that is neither 0 nor 1")
    return ids, mask


def specforge(path: Path, max_length: int, min_loss_tokens: int = 1) -> list[tuple[list[int], list[int]]]:
    """One file, whole: cut at max_length, then kept where enough is trained."""
    with path.open(encoding="utf-8") as lines:
        rows = [_flat_ids(json.loads(line)) for line in lines if line.strip()]
    cut = [(ids[:max_length], mask[:max_length]) for ids, mask in rows]
    return [(ids, mask) for ids, mask in cut if sum(mask) >= min_loss_tokens]


def speculators(folder: Path) -> list[tuple[list[int], list[int]]]:
    """Every .json and .jsonl below a folder; one schema for all rows; other columns dropped."""
    found, schema = [], None
    for path in sorted(folder.rglob("*.json*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            kinds = {name: type(value) for name, value in row.items()}
            if schema is not None and kinds != schema:
                raise RuleError(f"{path.name}: columns {kinds} after {schema}")
            schema = kinds
            found.append(_flat_ids(row))
    return found
