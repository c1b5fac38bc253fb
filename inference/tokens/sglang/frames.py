"""The parsers that know more of an answer than one pair of tags: several blocks of thought, a frame around the answer."""

from inference.tokens.sglang.spans import Span

_INNER, _INNER_END = "<|inner_prefix|>", "<|inner_suffix|>"
_TOOLS, _TOOLS_END = "<|tools_prefix|>[", "<|tools_suffix|>"
_THOUGHT, _THOUGHT_END = "<|START_THINKING|>", "<|END_THINKING|>"
_TEXT, _TEXT_END, _ACTION = "<|START_TEXT|>", "<|END_TEXT|>", "<|START_ACTION|>"


def read_inner_blocks(text: str) -> list[Span]:
    """`apertus2509`: every inner block is reasoning, and the tool calls inside one are content. Never forced."""
    spans: list[Span] = []
    at = 0
    while (start := text.find(_INNER, at)) >= 0:
        spans.append(Span("content", at, start))
        at = start + len(_INNER)
        end = text.find(_INNER_END, at)
        end, after = (len(text), len(text)) if end < 0 else (end, end + len(_INNER_END))
        while at < end:
            call = text.find(_TOOLS, at, end)
            if call < 0:
                spans.append(Span("reasoning", at, end))
                break
            close = text.find(_TOOLS_END, call, end)
            spans.append(Span("reasoning", at, call))
            at = end if close < 0 else close + len(_TOOLS_END)
            spans.append(Span("content", call, at))
        at = after
    return [*spans, Span("content", at, len(text))]


def read_cohere(text: str) -> list[Span]:
    """`cohere_command4`: thought ends at its tag or where the answer or an action begins; text outside the answer's frame goes."""
    cut = after = text.find(_THOUGHT_END)
    if cut >= 0:
        after += len(_THOUGHT_END)
    else:
        places = (text.find(_TEXT), text.find(_ACTION))
        cut = after = next((place for place in places if place >= 0), len(text))
    start = len(_THOUGHT) if text.startswith(_THOUGHT) and cut >= len(_THOUGHT) else 0
    spans = [Span("reasoning", start, cut)]
    answer = text.find(_TEXT, after)
    if answer >= 0:
        end = text.find(_TEXT_END, answer + len(_TEXT))
        spans.append(Span("content", answer + len(_TEXT), len(text) if end < 0 else end))
    elif text.find(_ACTION, after) >= 0:
        spans.append(Span("content", after, len(text)))
    return spans
