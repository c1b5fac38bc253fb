"""What an id can be to a format: the values of its role table, `uint8` per id."""

from enum import IntEnum


class Role(IntEnum):
    """An id's role. From STOP on the roles act; those before it are only looked for in what the delimiters leave as text."""

    TEXT = 0
    FOREIGN = 1
    """A control token that has no business in an answer"""
    SPEAKER = 2
    """Begins a turn or names its speaker"""
    SEPARATOR = 3
    """Between a call's header and its arguments; part of the call"""
    STOP = 4
    THINK_OPEN = 5
    THINK_CLOSE = 6
    SECTION_BEGIN = 7
    SECTION_END = 8
    CALL_BEGIN = 9
    CALL_END = 10
