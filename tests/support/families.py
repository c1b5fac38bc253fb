"""Families bound to made-up tokenizers, with conversations in them written as text: `family.ids("<think>a</think>b")`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.quality.inspection import Inspection, inspect
from inference.tokens.cache import TokenizerCache
from inference.tokens.declaration import TokenFormat
from inference.tokens.formats import BoundFormat, all_formats, bind
from inference.tokens.segmentation.segments import Segmentation
from inference.tokens.tokenizer import Tokenizer
from tests.support import tiny_tokenizers as tiny

PROMPTS = {
    "qwen3": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "kimi_k2": "<|im_user|>user<|im_middle|>hi<|im_end|><|im_assistant|>assistant<|im_middle|>",
    "deepseek_r1": "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>",
    "none": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "gpt_oss": "<|start|>user<|message|>hi<|end|><|start|>assistant",
}
"""Prompts of families that more is tested of than what holds for all; the others' are made from their declarations"""
NAMES = [item.name for item in all_formats()]
OPENED, CLOSED, SILENT = "<think>", "<think>\n\n</think>\n\n", ""
_OPENED_MESSAGE = {OPENED: "<|channel|>analysis<|message|>", CLOSED: "<|channel|>final<|message|>"}


@dataclass(frozen=True)
class Family:
    """A format on its tokenizer."""

    bound: BoundFormat
    tokenizer: Tokenizer
    prompt: str

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def prompt_ids(self, think: str = SILENT) -> list[int]:
        """The prompt's ids, ended by `think`: OPENED, CLOSED or SILENT."""
        declared = self.bound.format
        if declared.messages:
            think = _OPENED_MESSAGE.get(think, "")
        elif declared.think is None and declared.name != "none":
            think = ""
        elif declared.think:
            think = think.replace("<think>", declared.think.open).replace("</think>", declared.think.close)
        return self.ids(self.prompt + think)

    def segment(self, output: str, think: str = SILENT) -> Segmentation:
        return self.bound.segment(self.prompt_ids(think), self.ids(output))

    def tiles(self, output: str, think: str = SILENT) -> list[tuple[str, str]]:
        """The segments as (kind, text)."""
        ids = self.ids(output)
        found = self.bound.segment(self.prompt_ids(think), ids)
        return [(part.kind, self.tokenizer.decode(ids[part.start : part.end])) for part in found.segments]

    def inspect(
        self,
        output: str | Sequence[int],
        think: str = SILENT,
        finish: str = "stop",
        matched: Any = None,
        tools: list[dict[str, Any]] | None = None,
    ) -> Inspection:
        ids = self.ids(output) if isinstance(output, str) else list(output)
        if matched is None and finish == "stop" and ids and ids[-1] in self.bound.stop_ids:
            matched = ids[-1]
        return inspect(self.bound, self.tokenizer, self.prompt_ids(think), ids, finish, matched, tools=tools)

    def codes(self, output: str | Sequence[int], think: str = SILENT, finish: str = "stop", **more: Any) -> list[str]:
        """The flags' codes, in order."""
        return [flag.code for flag in self.inspect(output, think, finish, **more).flags]


def make_families(folder: Path) -> dict[str, Family]:
    """Every declared family, on a tokenizer of its own that is written under `folder`."""
    eos = "<｜end▁of▁sentence｜>"
    tiny.make_tokenizer(folder / "qwen3", added=tiny.QWEN3, template=tiny.CHATML, stop=["<|endoftext|>"])
    tiny.make_tokenizer(folder / "kimi_k2", added=tiny.KIMI_K2, template=tiny.KIMI_TEMPLATE)
    tiny.make_tokenizer(
        folder / "deepseek_r1",
        added=tiny.DEEPSEEK_R1,
        template=tiny.DEEPSEEK_TEMPLATE,
        bos="<｜begin▁of▁sentence｜>",
        eos=eos,
    )
    cache = TokenizerCache([folder], allow_remote_code=False)
    found = {}
    for declared in all_formats():
        name = declared.name
        if name != "none" and not (folder / name).exists():
            make_vocabulary(folder / name, declared)
        tokenizer = cache.get("qwen3" if name == "none" else name)
        found[name] = Family(bind(declared, tokenizer), tokenizer, PROMPTS.get(name) or _prompt(declared))
    return found


def make_vocabulary(
    folder: Path, declared: TokenFormat, style: tiny.Style = "byte_level", *, optional: bool = True
) -> Path:
    """A tokenizer with a token for every marker of the declaration, except those that the family may spell.

    `optional`: with the think tokens that only some members of the family have.

    As in real vocabularies, turn starts and stops are flagged special, and the delimiters of thinking and calls are not. The
    chat template holds the signs that tell the family, and no more.
    """
    special = {*declared.turn_starts, *declared.stops}
    markers = dict.fromkeys((*declared.markers(), *declared.never_in_answer, *declared.signature))
    without = set(declared.spelled)
    think = declared.think.open if declared.think and (optional or declared.think.required) else ""
    if declared.think and not think:
        without |= {declared.think.open, declared.think.close}
    added = [tiny.Added(text, special=text in special) for text in markers if text not in without]
    signs = " ".join((*declared.template_signs, think))
    template = "{# " + signs + " #}{% for m in messages %}{{ m.content }}{% endfor %}"
    config = {"model_type": declared.model_types[0]} if declared.model_types else {}
    eos = next(iter(declared.stops), "<|end|>")  # what one declaration lacks is told by its own tests alone
    return tiny.make_tokenizer(folder, style=style, added=added, template=template, eos=eos, config=config)


def _prompt(declared: TokenFormat) -> str:
    """A user's turn and the beginning of the assistant's, whose marker each declaration names first."""
    starts = declared.turn_starts or ("",)
    return f"{starts[-1]}hi{starts[0]}"
