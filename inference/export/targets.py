"""The targets there are: a new one is a module like its neighbours, and a line here."""

from dataclasses import dataclass
from typing import Final

from db.errors import Invalid
from inference.export import input_ids_jsonl, parquet_rows
from inference.export.shards import ShardWriter


@dataclass(frozen=True, slots=True)
class Target:
    """A format: its name, what it is for, and its writer."""

    name: str
    description: str
    writer: type[ShardWriter]


TARGETS: Final = {
    target.name: target
    for target in (
        Target(input_ids_jsonl.NAME, input_ids_jsonl.DESCRIPTION, input_ids_jsonl.JsonlWriter),
        Target(parquet_rows.NAME, parquet_rows.DESCRIPTION, parquet_rows.ParquetWriter),
    )
}


def get_target(name: str) -> Target:
    """The target called `name`.

    Raises:
        Invalid: `export_format_unknown`, field `format`.
    """
    if name not in TARGETS:
        raise Invalid(
            "export_format_unknown", f"There is no export format {name}; use {', '.join(TARGETS)}.", field="format"
        )
    return TARGETS[name]
