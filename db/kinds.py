"""Segment kinds as bits, so that a list can filter by what an answer holds without reading it."""

SEGMENT_KINDS = ("reasoning", "content", "tool_call", "control", "malformed")
"""The order is stored in rows: append, never reorder."""


def kind_bit(kind: str) -> int:
    """The bit of one kind in `Sample.kinds`.

    Raises:
        ValueError: there is no such kind.
    """
    return 1 << SEGMENT_KINDS.index(kind)


def kind_bits(*kinds: str) -> int:
    """The bit set of several kinds."""
    bits = 0
    for kind in kinds:
        bits |= kind_bit(kind)
    return bits


def kinds_in(bits: int) -> tuple[str, ...]:
    """The kinds of a bit set, in the order of `SEGMENT_KINDS`."""
    return tuple(kind for kind in SEGMENT_KINDS if bits & kind_bit(kind))
