"""What an id can be to a format: the values of its role table, `uint8` per id."""

from typing import Final


class Role:
    """An id's role. From STOP on the roles act; those before it are only looked for in what the delimiters leave as text.

    Plain numbers, not an enum: they are compared with numpy arrays for every sample, where an enum's look-ups would be felt.
    """

    TEXT: Final = 0
    FOREIGN: Final = 1
    """A control token that has no business in an answer"""
    SPEAKER: Final = 2
    """Begins a turn or names its speaker"""
    SEPARATOR: Final = 3
    """Between a call's header and its arguments; part of the call"""
    STOP: Final = 4
    THINK_OPEN: Final = 5
    THINK_CLOSE: Final = 6
    SECTION_BEGIN: Final = 7
    SECTION_END: Final = 8
    CALL_BEGIN: Final = 9
    CALL_END: Final = 10


Marks = list[tuple[int, int]]
"""The ids that are not text: (position, role), in order"""
