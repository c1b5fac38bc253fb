"""What only shows beside the run's other answers: the same answer to different prompts, and lengths out of line. Pure.

The caller keeps the hashes and lengths; here is what they are and what they mean.
"""

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.quality.flags import Flag, flag
from inference.tokens.ids import Ids
from inference.tokens.segmentation.segments import Segmentation
from inference.tokens.tokenizer import Tokenizer

LEAST_HASHED = 16  # tokens: "Yes.", "42", a bare refusal or a one-argument call are honestly the same for many prompts
LEAST_LENGTHS = 30  # fewer say little about what is usual
_DEVIATIONS = 3.5  # the usual cut for scores by median and absolute deviation (Iglewicz and Hoaglin, 1993)
_LEAST_FACTOR = 3.0  # never flagged while within this factor of the median, however alike the others are
_SIGMA = 1.4826  # median absolute deviations in a normal standard deviation


def answer_hash(ids: Ids, segmentation: Segmentation, tokenizer: Tokenizer) -> int | None:
    """A signed 64-bit hash of the ids of content and tool calls; None where they are fewer than 16 tokens, or only whitespace.

    The reasoning does not count: two prompts that are thought about differently can still get the same answer. `ids: uint32[n]`.
    """
    parts = [part for part in segmentation.segments if part.kind in {"content", "tool_call"}]
    if sum(part.end - part.start for part in parts) < LEAST_HASHED:
        return None
    if all(tokenizer.is_blank(ids[part.start : part.end]) for part in parts):
        return None
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part.kind.encode())
        digest.update(ids[part.start : part.end].astype("<u4").tobytes())
    return int.from_bytes(digest.digest(), "little", signed=True)


def length_limits(lengths: Sequence[int] | NDArray[np.integer[Any]]) -> tuple[int, int] | None:
    """(low, high): lengths in tokens below `low` or above `high` are out of line with the others; None for fewer than 30 of them.

    By median and absolute deviation of the logarithms, since lengths spread by factors and a few extremes must not move the limits.
    Lengths of 0 (answers without ids) have a flag of their own and are left out.
    """
    array = np.asarray(lengths)
    logs = np.log(array[array > 0])
    if logs.size < LEAST_LENGTHS:
        return None
    middle = float(np.median(logs))
    deviation = _SIGMA * float(np.median(np.abs(logs - middle)))
    reach = max(_DEVIATIONS * deviation, math.log(_LEAST_FACTOR))
    return math.floor(math.exp(middle - reach)), math.ceil(math.exp(middle + reach))


def length_flag(length: int, limits: tuple[int, int], category: str | None = None) -> Flag | None:
    """`length_outlier` over the whole answer where its length lies outside the limits of its category (or of the run)."""
    low, high = limits
    if not length or low <= length <= high:
        return None
    which = "longer" if length > high else "shorter"
    where = f"in the category “{category}”" if category else "in this run"
    message = (
        f"The answer has {length:,} tokens, much {which} than the others {where}: nearly all have {low:,} to {high:,}."
    )
    return flag("length_outlier", 0, length, message)


def duplicate_flag(length: int, others: int, example: str | int | None = None) -> Flag:
    """`duplicate_answer` over the whole answer: `others` further prompts got the same; `example` names a sample of one of them.

    Only for answers to *different* prompts: repeats of one prompt are often the same, and rightly so where sampling is greedy.
    """
    prompts = "another prompt" if others == 1 else f"{others:,} other prompts"
    named = "" if example is None else f", such as sample {example}"
    return flag("duplicate_answer", 0, length, f"The same answer, id for id, was given to {prompts}{named}.")
