"""Texts that a parser can stumble over, the same on every run: each parser's own markers among words, in any order."""

import random
from collections.abc import Iterator

from inference.tokens.sglang.reasoning import PARSERS, ReasoningParser

_WORDS = (
    "plan",
    " the answer is 4",
    "\n",
    "\n\n",
    " ",
    "",
    "a",
    "<",
    "<|",
    "é🙂",
    '{"x": 1}',
    "</thinking>",
    "<thinking>",
)
_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>", "<thi", "</think", "<tool_calls>")
_HARMONY = (
    "<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>", "<|call|>", "<|constrain|>", "<|weird|>", "<|cha",
    "assistant", "analysis", "commentary", " to=functions.f ", "final", "json", "assistantfinal", "assistantfin", "Commentary",
    "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|start|>assistant", "|>", "comm", "entary", "user",
)  # fmt: skip
_HARMONY_WHOLE = (
    "<|channel|>analysis<|message|>think<|end|>",
    "<|start|>assistant<|channel|>final<|message|>answer<|return|>",
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>commentary<|message|>preamble<|end|>",
    "<|start|>functions.f to=assistant<|message|>result<|end|>",
    "<|channel|>analysis to=python code<|message|>print()<|call|>",
    "<|channel|>final<|message|>cut short",
    "<|channel|>analysis<|message|>cut short",
    "commentary",
    "\n",
    "noise",
    "<|message|>",
    "<|call|>",
    "<|weird|>",
)
_FRAMES = {
    "apertus2509": ("<|tools_prefix|>[", "<|tools_suffix|>"),
    "cohere_command4": ("<|START_TEXT|>", "<|END_TEXT|>", "<|START_ACTION|>", "<|END_ACTION|>"),
    "gemma4": ("thought\n", "<|channel>thought\n"),
}


def texts(key: str, count: int) -> Iterator[str]:
    """`count` texts for one parser: fixed ones first, then made-up ones from a seed of the key's own."""
    declared = PARSERS[key]
    made = [*_fixed(declared)]
    dice = random.Random(key)
    pools = [_WORDS, (declared.open, declared.close, declared.tool_start or "", *_FRAMES.get(key, ())), _TAGS]
    if key == "gpt-oss":
        pools = [_WORDS, _HARMONY, _HARMONY, _HARMONY_WHOLE]
    while len(made) < count:
        if key == "gpt-oss" and dice.random() < 0.4:
            made.append("".join(dice.choices(_HARMONY_WHOLE, k=dice.randint(1, 5))))
        else:
            made.append("".join(dice.choice(dice.choice(pools)) for _ in range(dice.randint(0, 9))))
    yield from made[:count]


def _fixed(declared: ReasoningParser) -> Iterator[str]:
    start, end, tool = declared.open, declared.close, declared.tool_start or "<tool_call>"
    for text in (
        "",
        "answer",
        "plan{end}answer",
        "{start}plan{end}\n\nanswer",
        "{start}{start}plan{end}answer",
        " {start}plan{end}answer",
        "text{start}plan{end}answer",
        "{start}plan",
        "{start}plan{end}answer{end}more",
        "{start}a{end}x{start}b{end}y",
        "{start}a{start}b{end}c{end}d",
        "{start}plan{tool}call",
        "{start}plan{tool}call{end}answer",
        "plan{tool}call",
        "{tool}call",
        "{start}{end}",
        "{start}\n\n{end}\n\nanswer",
        "{start}plan{end}",
        "{end}answer",
        "\n {end}answer",
        "{end}{end}answer",
        "{start}",
        "{end}",
        "{start}plan</thinking>answer",
    ):
        yield text.replace("{start}", start).replace("{end}", end).replace("{tool}", tool)
