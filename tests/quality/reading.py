"""Answers for the checks of text: a family, what the person asked, and what came back."""

import numpy as np

from inference.quality.flags import Flag
from inference.quality.inspection import inspect_text
from tests.support.families import SILENT, Family

END = "<|im_end|>"


def read(
    family: Family,
    content: str,
    prompt: str = "",
    *,
    reasoning: str = "A thought.",
    finish: str = "stop",
    off: frozenset[str] | None = None,
) -> tuple[Flag, ...]:
    """The flags of an answer in Qwen3's form with this reasoning and content."""
    ids = np.array(family.ids(f"<think>{reasoning}</think>{content}{END}"), dtype=np.uint32)
    segmentation = family.bound.segment(family.prompt_ids(SILENT), ids)
    more = {} if off is None else {"off": off}
    return inspect_text(family.bound, family.tokenizer, prompt, ids, segmentation, finish_reason=finish, **more)


def cited(family: Family, content: str, flag: Flag, *, reasoning: str = "A thought.") -> str:
    """The text that a flag of `read` cites."""
    ids = family.ids(f"<think>{reasoning}</think>{content}{END}")
    return family.tokenizer.decode(ids[flag.start : flag.end])
