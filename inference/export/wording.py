"""Sentences about an export that several places say."""

from collections.abc import Mapping

from db.errors import Invalid
from inference.export.selection import REASONS


def left_out_sentence(left_out: Mapping[str, int]) -> str:
    """`12 cut off at the token limit, 3 flagged as an error by a check`, in the order in which reasons are tried."""
    return ", ".join(f"{left_out[name]:,} {words}" for name, words in REASONS.items() if left_out.get(name))


def empty_export(left_out: Mapping[str, int]) -> Invalid:
    """The refusal of an export without a row, with what was left out and why."""
    why = left_out_sentence(left_out) or "the run has no samples"
    return Invalid(
        "export_empty",
        f"Nothing would be exported: {why}. Widen the filter, or choose options (include_truncated, include_bad, "
        "include_flagged, max_length) that take some of them.",
        field="filter" if set(left_out) == {"outside_filter"} else None,
    )
