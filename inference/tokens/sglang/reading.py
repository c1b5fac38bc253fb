"""One answer as SGLang's chat route would have returned it, for each reasoning parser its model is served with."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inference.tokens.binding import BoundFormat
from inference.tokens.ids import Ids, as_ids
from inference.tokens.segmentation.segments import PromptState, Segmentation
from inference.tokens.sglang.differences import differences
from inference.tokens.sglang.heard import Heard
from inference.tokens.sglang.reasoning import PARSERS, ReasoningParser
from inference.tokens.sglang.spans import Span, gathered
from inference.tokens.tokenizer import Tokenizer

NO_PARSER: Final = ""
"""The `parser` of the reading for a server started without one."""
_KEEPS_STOP = {"gpt-oss": "<|call|>"}
_SUFFIXED = re.compile(r"<(?P<name>think|tool_calls)(?::[^>]+)?>")


@dataclass(frozen=True, slots=True)
class EngineReading:
    """What the parser would have returned, and in which way that is not what the ids say.

    `forced`: it takes the text to begin inside reasoning. `same`: the two agree but for whitespace around them and the markup of
    tool calls, and `sentences` is empty. `condition` is what the request must hold for this reading, empty where nothing.
    """

    parser: str
    forced: bool
    reasoning: str
    content: str
    sentences: tuple[str, ...]
    same: bool
    condition: str = ""


def engine_readings(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    output_ids: Sequence[int] | NDArray[np.integer[Any]],
    segmentation: Segmentation,
    *,
    tools: bool | None = None,
    thinking: bool | None = None,
) -> tuple[EngineReading, ...]:
    """One reading for each key in the format's `reasoning_parsers`, and one for a server without a parser; none without keys.

    `tools` tells whether the request offers tools (special tokens then stay in the text); left out, it does where the answer
    holds a call. `thinking` is the request's own switch (`enable_thinking` or `thinking` among the template's arguments), where it
    was set; else the prompt's last ids tell. Linear in the number of ids; raises nothing for any ids.
    """
    keys = [key for key in bound.format.reasoning_parsers if key in PARSERS]
    ids = as_ids(output_ids, "output_ids")
    if not keys or not len(ids):
        return ()
    if tools is None:
        tools = any(segment.kind == "tool_call" for segment in segmentation.segments)
    room = _Room(bound, tokenizer, ids, segmentation, tools=tools, thinking=thinking)
    return (*(reading for key in keys for reading in room.read(key)), room.unparsed(keys))


class _Room:
    """One answer, its text decoded once for each way of decoding that is asked for."""

    def __init__(
        self,
        bound: BoundFormat,
        tokenizer: Tokenizer,
        ids: Ids,
        segmentation: Segmentation,
        *,
        tools: bool,
        thinking: bool | None,
    ) -> None:
        self.bound = bound
        self.tokenizer = tokenizer
        self.ids = ids
        self.segmentation = segmentation
        self.tools = tools
        self.thinking = thinking
        self._heard: dict[tuple[int, bool], Heard] = {}

    def heard(self, key: str, *, special: bool) -> Heard:
        end = len(self.ids)
        if self.segmentation.stop == end - 1:
            kept = _KEEPS_STOP.get(key) if self.tools else None
            if kept is None or int(self.ids[-1]) != self.tokenizer.id_of(kept):
                end -= 1
        found = self._heard.get((end, special))
        if found is None:
            found = self._heard[end, special] = Heard(self.tokenizer, self.ids, end, special=special)
        return found

    def read(self, key: str) -> Iterator[EngineReading]:
        parser = _fitted(PARSERS[key], self.tokenizer)
        forced = parser.pinned
        if forced is None:
            forced = asked_for(parser, self.segmentation.prompt_state, self.thinking)
        if parser.special == "kept_with_effort" and not self.tools:
            yield self._read(key, parser, forced=True, special=True, condition="reasoning_effort set")
            yield self._read(key, parser, forced=False, special=False, condition="reasoning_effort not set")
        else:
            yield self._read(key, parser, forced=forced, special=self.tools or parser.special == "kept")

    def _read(
        self, key: str, parser: ReasoningParser, *, forced: bool, special: bool, condition: str = ""
    ) -> EngineReading:
        heard = self.heard(key, special=special)
        parsed = parser.read(heard.text, forced=forced)
        told = differences(self.bound, self.ids, self.segmentation, heard, parsed)
        return EngineReading(key, forced, parsed.reasoning, parsed.content, told, not told, condition)

    def unparsed(self, keys: list[str]) -> EngineReading:
        """The whole text is content."""
        heard = self.heard(NO_PARSER, special=self.tools or "gpt-oss" in keys)
        parsed = gathered(heard.text, [Span("content", 0, len(heard.text))])
        told = differences(self.bound, self.ids, self.segmentation, heard, parsed)
        return EngineReading(NO_PARSER, False, parsed.reasoning, parsed.content, told, not told)


def asked_for(parser: ReasoningParser, state: PromptState, thinking: bool | None = None) -> bool:
    """Whether the chat route says that thinking is on: by the request's switch, else by how the prompt ends.

    Switching it off makes a prompt that closes the block; a prompt that says nothing leaves the switch where it is by default.
    """
    if parser.thinking == "always":
        return True
    if thinking is not None:
        return thinking
    return state == "open" if parser.thinking == "when_opened" else state != "closed"


def _fitted(parser: ReasoningParser, tokenizer: Tokenizer) -> ReasoningParser:
    """The parser with its tags as this vocabulary spells them."""
    if not parser.by_vocabulary:
        return parser
    for text, _ in tokenizer.vocabulary.added.values():
        found = _SUFFIXED.fullmatch(text)
        if found and found["name"] == "think":
            parser = replace(parser, open=text, close=f"</{text[1:]}")
        elif found:
            parser = replace(parser, tool_start=text)
    return parser
