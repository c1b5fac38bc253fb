"""SGLang's reasoning parsers by the key that `--reasoning-parser` takes, each a small declaration.

Most share one algorithm and differ in their tags, in whether they take the text to begin inside reasoning ("forced"), and in
the tool marker that ends reasoning without a closing tag. Those that work in their own way are in `frames.py` and
`channels.py`. Source: sglang/srt/parser/reasoning_parser.py and sglang/srt/entrypoints/openai/serving_chat.py of 0.5.23.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from inference.tokens.sglang.channels import read_harmony
from inference.tokens.sglang.frames import read_cohere, read_inner_blocks
from inference.tokens.sglang.spans import Parsed, Span, gathered

Thinking = Literal["always", "unless_off", "when_opened"]
Special = Literal["dropped", "kept", "kept_with_effort"]


@dataclass(frozen=True)
class ReasoningParser:
    """One key. `tool_start` ends reasoning that has no closing tag; `label` follows the opening tag and goes with it.

    `pinned` is what the key makes of "forced" whatever the request asks: True, False, or None where the request decides.
    `thinking` is when the chat route asks for it: always; unless thinking was switched off; only where the prompt opened the
    block (where the switch is off by default, or is an effort). `special` says whether special tokens reach the parser.
    """

    open: str
    close: str
    tool_start: str | None = None
    label: str = ""
    pinned: bool | None = None
    thinking: Thinking = "always"
    special: Special = "dropped"
    by_vocabulary: bool = False
    """The tags may carry a suffix, which SGLang looks up in the vocabulary"""
    drops_stray_close: bool = False
    """A closing tag at the very beginning goes where nothing was forced"""
    drops_newlines: bool = False
    """Newlines at the beginning of the content go, where there is a closing tag anywhere"""
    never_empty: bool = False
    """Reasoning without content is returned as content"""
    adds_open: bool = False
    """Nothing is parsed; the opening tag is put before the content"""
    reader: Callable[[str, bool], list[Span]] | None = None
    """The parser's own way of reading, where that is not by one pair of tags"""

    def read(self, text: str, *, forced: bool) -> Parsed:
        """What the parser returns for the text."""
        forced = forced if self.pinned is None else self.pinned
        if self.adds_open:
            return gathered(text, [Span("content", 0, len(text))], before=self.open)
        spans = self.reader(text, forced) if self.reader else self._by_tags(text, forced=forced)
        if self.drops_newlines and self.close in text:
            spans = [
                Span(field, end - len(text[start:end].lstrip("\n")), end)
                if field == "content"
                else Span(field, start, end)
                for field, start, end in spans
            ]
        if self.never_empty and not any(span.field == "content" and span.start < span.end for span in spans):
            spans = [Span("content", span.start, span.end) for span in spans if span.field == "reasoning"]
        return gathered(text, spans)

    def _by_tags(self, text: str, *, forced: bool) -> list[Span]:
        start = 0
        if self.drops_stray_close and not forced:
            begin = len(text) - len(text.lstrip())
            start = begin + len(self.close) if text.startswith(self.close, begin) else 0
        if not forced and text.find(self.open, start) < 0:
            return [Span("content", start, len(text))]
        while text.startswith(self.open + self.label, start):
            start += len(self.open + self.label)
        end = text.find(self.close, start)
        if end >= 0:
            return [Span("reasoning", start, end), Span("content", end + len(self.close), len(text))]
        cut = text.find(self.tool_start, start) if self.tool_start else -1
        cut = len(text) if cut < 0 else cut
        return [Span("reasoning", start, cut), Span("content", cut, len(text))]


def _think(
    tool_start: str | None = None, *, pinned: bool | None = None, thinking: Thinking = "always"
) -> ReasoningParser:
    return ReasoningParser("<think>", "</think>", tool_start, pinned=pinned, thinking=thinking)


_R1 = _think(pinned=True)
_QWEN3 = _think("<tool_call>", thinking="unless_off")
_QWEN3_FORCED = _think("<tool_call>", pinned=True)
_ASKED_FOR = _think("<tool_call>", thinking="when_opened")
_DEEPSEEK_V4 = _think(thinking="when_opened")

PARSERS: dict[str, ReasoningParser] = {
    "apertus2509": ReasoningParser(
        "<|inner_prefix|>", "<|inner_suffix|>", special="kept", reader=lambda text, _: read_inner_blocks(text)
    ),
    "cohere_command4": ReasoningParser(
        "<|START_THINKING|>", "<|END_THINKING|>", reader=lambda text, _: read_cohere(text)
    ),
    "deepseek-r1": _R1,
    "deepseek-v3": _ASKED_FOR,
    "deepseek-v4": _DEEPSEEK_V4,
    "deepseek-v41": _DEEPSEEK_V4,
    "dots": _QWEN3,
    "gemma4": ReasoningParser("<|channel>", "<channel|>", label="thought\n", thinking="when_opened", special="kept"),
    "gigachat35": _R1,
    "glm45": _QWEN3,
    "gpt-oss": ReasoningParser(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        pinned=True,
        special="kept",
        reader=lambda text, _: read_harmony(text),
    ),
    "granite_thinking_parser": ReasoningParser(
        "<think>", "</think>", "<tool_call>", thinking="unless_off", drops_newlines=True
    ),
    "hunyuan": ReasoningParser("<think>", "</think>", "<tool_calls>", thinking="when_opened", by_vocabulary=True),
    "interns1": _QWEN3,
    "iquest_q1": _think(thinking="unless_off"),
    "k2_horizon": ReasoningParser("<ifm|think>", "</ifm|think>", "<ifm|tool_call", pinned=True),
    "kimi": ReasoningParser("◁think▷", "◁/think▷", pinned=False),
    "kimi_k2": _think("<|tool_calls_section_begin|>", thinking="unless_off"),
    "ling3": ReasoningParser("<think>", "</think>", "<tool_call>", thinking="unless_off", never_empty=True),
    "mimo": _ASKED_FOR,
    "minimax": _QWEN3_FORCED,
    "minimax-append-think": ReasoningParser("<think>", "</think>", adds_open=True),
    "minimax-m3": ReasoningParser("<mm:think>", "</mm:think>", thinking="when_opened", drops_stray_close=True),
    "mistral": ReasoningParser("[THINK]", "[/THINK]", thinking="when_opened", special="kept_with_effort"),
    "nanbeige": _QWEN3,
    "nemotron_3": _QWEN3,
    "poolside_v1": _ASKED_FOR,
    "qwen3": _QWEN3,
    "qwen3-thinking": _QWEN3_FORCED,
    "step3": _R1,
    "step3p5": _R1,
}
"""The keys whose behaviour is known here. SGLang has a few more, for families written in ways of their own."""


def parse(key: str, text: str, *, forced: bool) -> Parsed:
    """What the parser `key` returns for a whole answer's text; `forced`: the text begins inside reasoning.

    Raises KeyError for a key that is not in `PARSERS`.
    """
    return PARSERS[key].read(text, forced=forced)
