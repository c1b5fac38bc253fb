"""How the answer ended: cut off, empty, or in another way than the server said."""

from inference.quality.answer import Answer
from inference.quality.flags import Flag, flag

_CORRUPT = "NaN happened"
"""What SGLang gives as the matched text where a sampled id was no id at all; it puts a stop id in its place (0.5.23)"""


def check_end(answer: Answer) -> list[Flag]:
    """Truncated, empty, and an end that is not what the server said."""
    n = len(answer.ids)
    found = []
    if answer.truncated:
        found.append(flag("truncated", max(n - 1, 0), n, f"Cut off at the token limit after {n:,} tokens."))
    if answer.empty:
        what = "The answer is a stop id and nothing else." if n else "The answer has no ids."
        found.append(flag("output_empty", 0, n, what))
    message = _mismatch(answer)
    if message:
        found.append(flag("finish_mismatch", max(n - 1, 0), n, message))
    return found


def _mismatch(answer: Answer) -> str | None:
    n = len(answer.ids)
    last = int(answer.ids[-1]) if n else None
    if answer.truncated:
        whole = answer.segmentation.stop == n - 1 and n > 0
        return f"The server says the limit was reached, but the last id {last} is a stop id." if whole else None
    if answer.finish_reason != "stop":
        return None
    said = _unlike_matched(answer, last)
    return said and f"The server says {said}, but the last id {'is none' if last is None else f'is {last}'}."


def _unlike_matched(answer: Answer, last: int | None) -> str | None:
    """What the server says it matched, where the answer's end is another."""
    matched = answer.finish_matched
    if isinstance(matched, str):  # a stop text, or the pattern of one: its ids need not be there
        return f"“{_CORRUPT}”, and put a stop id in the place of one that was none" if matched == _CORRUPT else None
    if matched is None or isinstance(matched, bool):
        return None if last in answer.stop_ids else "it stopped"
    if isinstance(matched, int):
        return None if matched == last else f"it stopped at id {matched}"
    if last in matched or (len(matched) > 0 and answer.ids[-len(matched) :].tolist() == list(matched)):
        return None
    return f"it stopped at one of the ids {', '.join(map(str, matched))}"
