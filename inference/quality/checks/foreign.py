"""Markers of other model families, spelled in content: what is left over where a model was taught from another one's raw text."""

import re
from bisect import bisect_right
from functools import cache
from itertools import islice

from inference.quality.flags import Flag, flag
from inference.quality.reading import Reading
from inference.tokens.binding import BoundFormat
from inference.tokens.formats import all_formats

_OTHERS = (
    *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"),
    *("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[THINK]", "[/THINK]"),
    *("<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|observation|>", "<|end|>"),
    *(
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|im_sep|>",
        "<|channel|>",
        "<|message|>",
        "<|start|>",
        "<|return|>",
    ),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<|tool_call_begin|>", "<|tool_calls_section_begin|>"),
    *("<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜tool▁calls▁begin｜>", "<|END_OF_TURN_TOKEN|>"),
)
"""Delimiters of chat templates in wide use, besides those of the declared families"""
_BY_NO_CHANCE = re.compile(r"<[|｜]|<<SYS|<</SYS|</?(?:start|end)_of_|</?think>|</?tool_call>|\[/?[A-Z_]{4,}\]")
"""A marker is looked for where its spelling is no word, no HTML and no markup of some other kind"""
_CODE = re.compile(
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)|(?<!`)(?P<ticks>`{1,8})(?!`)[^`\n]+(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_MOST_LOOKED_AT = 40  # markers in one part


@cache
def _pattern(own: frozenset[str]) -> re.Pattern[str]:
    declared = {text for known in all_formats() for text in known.markers()}
    foreign = {text for text in declared | set(_OTHERS) if _BY_NO_CHANCE.match(text)} - own
    return re.compile("|".join(map(re.escape, sorted(foreign, key=len, reverse=True))))


def _own(bound: BoundFormat) -> frozenset[str]:
    """The markers that ids act for, or that the ids' own checks look for."""
    return frozenset(bound.ids) | frozenset(bound.format.markers())


def check_foreign(reading: Reading) -> list[Flag]:
    """Other families' markers in content, except where they are quoted as code. A special token has another flag."""
    found = []
    for part in reading.parts:
        text = part.text
        if part.kind != "content" or not ("<" in text or "[" in text):
            continue
        hits = list(islice(_pattern(_own(reading.bound)).finditer(text), _MOST_LOOKED_AT))
        if not hits:
            continue
        quoted = [place for code in _CODE.finditer(text) for place in code.span()]
        for hit in hits:
            if bisect_right(quoted, hit.start()) % 2:
                continue  # after a quote's start, and before its end
            start, end = reading.ids_of(part, hit.start(), hit.end())
            if end - start == 1 and int(reading.ids[start]) in reading.tokenizer.special_ids:
                continue
            message = f"The content spells {hit[0]}, a marker of another model family."
            found.append(flag("marker_foreign", start, end, message))
    return found
