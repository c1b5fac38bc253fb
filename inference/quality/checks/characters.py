"""What cannot be shown: characters that a cut went through (at the answer's end, or at a delimiter), and ids without a token."""

import numpy as np

from inference.quality.answer import Answer
from inference.quality.flags import Flag, flag

_READ = frozenset({"reasoning", "content", "tool_call"})
_ASCII_END, _LEAD = 0x80, 0xC0
_LONGEST = 4  # bytes of a character


def check_characters(answer: Answer) -> list[Flag]:
    """A part that ends inside a character. Where the rest of it stands behind a delimiter, both sides are cited."""
    found = []
    segments, bytes_of = answer.segmentation.segments, answer.tokenizer.vocabulary.bytes_of
    for place, part in enumerate(segments):
        if part.kind not in _READ:
            continue
        data = bytes_of(int(answer.ids[part.end - 1]))
        if data and data[-1] < _ASCII_END:
            continue
        tail = answer.ids[max(part.start, part.end - _LONGEST) : part.end]
        if not _unfinished(answer.tokenizer.bytes_of(tail)):
            continue
        start, end, message = part.end - 1, part.end, f"The {part.kind} ends inside a character."
        following = range(place + 1, len(segments))  # no slice: that would copy what follows, once for each such part
        rest = next((segments[at] for at in following if segments[at].kind != "control"), None)
        if rest is not None and _goes_on(bytes_of(int(answer.ids[rest.start]))):
            between = answer.tokenizer.decode(answer.ids[part.end : rest.start])
            message = f"{between or 'A border'} stands in the middle of a character: neither side can show it."
            end = rest.start + 1
        found.append(flag("ends_inside_character", start, end, message))
    return found


def check_tokens(answer: Answer) -> list[Flag]:
    """Ids that the tokenizer has no token for: a row of padding in the model's table, or another model's id."""
    table = answer.tokenizer.vocabulary.without_token
    places = np.flatnonzero(table.take(answer.ids, mode="clip")).tolist()
    if not places:
        return []
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    message = f"The id {int(answer.ids[places[0]])}{more} stands for no token of this tokenizer."
    return [flag("id_without_token", places[0], places[0] + 1, message)]


def _goes_on(data: bytes) -> bool:
    return bool(data) and _ASCII_END <= data[0] < _LEAD


def _unfinished(data: bytes) -> bool:
    """Whether the bytes end with the beginning of a UTF-8 character."""
    for back, byte in enumerate(reversed(data[-_LONGEST:]), start=1):
        if byte >= _LEAD:  # a lead byte; how many bytes it announces follows
            return back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)  # noqa: PLR2004
        if byte < _ASCII_END:
            return False
    return False
