"""Families bound to made-up tokenizers, with conversations in them written as text: `family.ids("<think>a</think>b")`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.quality.inspection import Inspection, inspect
from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import BoundFormat, bind, get_format
from inference.tokens.segmentation.segments import Segmentation
from inference.tokens.tokenizer import Tokenizer
from tests.support import tiny_tokenizers as tiny

PROMPTS = {
    "qwen3": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "kimi_k2": "<|im_user|>user<|im_middle|>hi<|im_end|><|im_assistant|>assistant<|im_middle|>",
    "deepseek_r1": "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>",
    "none": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
}
OPENED, CLOSED, SILENT = "<think>", "<think>\n\n</think>\n\n", ""


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
    """Every family of `PROMPTS`, its tokenizer written under `folder`."""
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
    for name, prompt in PROMPTS.items():
        tokenizer = cache.get("qwen3" if name == "none" else name)
        found[name] = Family(bind(get_format(name), tokenizer), tokenizer, prompt)
    return found
