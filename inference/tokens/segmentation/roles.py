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
    INNER: Final = 4
    """Orders a call's payload, such as the tags around an argument's name and value; part of the call"""
    STOP: Final = 5
    THINK_OPEN: Final = 6
    THINK_CLOSE: Final = 7
    SECTION_BEGIN: Final = 8
    SECTION_END: Final = 9
    CALL_BEGIN: Final = 10
    CALL_END: Final = 11
    MESSAGE_START: Final = 12
    """Begins a message's header, where an answer is a row of messages"""
    CHANNEL: Final = 13
    MESSAGE_BODY: Final = 14
    """Between a message's header and its body"""
    MESSAGE_END: Final = 15


PARTS_OF_CALL: Final = frozenset([Role.SEPARATOR, Role.INNER, Role.CHANNEL, Role.MESSAGE_BODY])
"""Roles that are at home inside a call's segment"""

Marks = list[tuple[int, int]]
"""The ids that are not text: (position, role), in order"""
