"""How the fake turns ids into text and messages into ids: a small built-in vocabulary, or any Hugging Face folder.

The folder form uses transformers directly, not Draftmill's own rendering, so that agreement of the two means something.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

IM_START, IM_END, END_OF_TEXT = 151644, 151645, 151643
THINK, UNTHINK, TOOL, UNTOOL = 151667, 151668, 151657, 151658
RECORDED_ANSWER = [THINK, 10061, 752, 1744, 911, 432, 0, UNTHINK, 271, 785, 4226, 374, 3040, 13, IM_END]
"""What the recorded model answered: `<think>Let me think about it!</think>`, two line feeds, `The answer is four.<|im_end|>`"""

_SPECIAL = {END_OF_TEXT: "<|endoftext|>", IM_START: "<|im_start|>", IM_END: "<|im_end|>"}
_MARKS = {THINK: "<think>", UNTHINK: "</think>", TOOL: "<tool_call>", UNTOOL: "</tool_call>"}
_WORDS = {
    0: "!", 13: ".", 198: "\n", 271: "\n\n", 374: " is", 432: " it", 752: " me", 785: "The", 872: "user", 911: " about",
    1744: " think", 3040: " four", 4226: " answer", 8948: "system", 10061: "Let", 13048: "Hi", 77091: "assistant",
}  # fmt: skip
_BYTES_AT = 2000


class Vocabulary(Protocol):
    """What the server needs of a tokenizer."""

    eos_ids: frozenset[int]
    max_length: int | None

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Text of ids; special tokens left out where asked."""

    def encode(self, text: str) -> list[int]:
        """Ids of text."""

    def render(
        self, messages: list[dict[str, Any]], tools: Any, kwargs: dict[str, Any], *, generate: bool
    ) -> list[int]:
        """Ids of a conversation."""


class BuiltinVocabulary:
    """Qwen3's special ids, the recorded words, 256 byte ids from 2000, and ` w<id>` for every other id."""

    eos_ids = frozenset({IM_END})
    max_length: int | None = 131_072

    def __init__(self, *, think_special: bool = False) -> None:
        """`think_special`: whether `skip_special_tokens` removes think and tool tokens too (not so in Qwen3)."""
        self._special = set(_SPECIAL) | (set(_MARKS) if think_special else set())
        self._texts = {**_SPECIAL, **_MARKS, **_WORDS}
        self._ids = {text: token for token, text in self._texts.items()}
        by_length = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile("(" + "|".join(map(re.escape, by_length)) + r")| w(\d+)|(.)", re.DOTALL)

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        out = bytearray()
        for token in ids:
            if skip_special and token in self._special:
                continue
            if _BYTES_AT <= token < _BYTES_AT + 256:
                out.append(token - _BYTES_AT)
            else:
                out += self._texts.get(token, f" w{token}").encode()
        return out.decode(errors="replace")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for match in self._pattern.finditer(text):
            known, number, char = match.groups()
            if known is not None:
                ids.append(self._ids[known])
            elif number is not None:
                ids.append(int(number))
            else:
                ids += [_BYTES_AT + byte for byte in char.encode()]
        return ids

    def render(
        self, messages: list[dict[str, Any]], tools: Any, kwargs: dict[str, Any], *, generate: bool
    ) -> list[int]:
        text = f"<|im_start|>system\n{tools}<|im_end|>\n" if tools else ""
        text += "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        if generate:
            text += "<|im_start|>assistant\n" + (
                "" if kwargs.get("enable_thinking", True) else "<think>\n\n</think>\n\n"
            )
        return self.encode(text)


class FolderVocabulary:
    """A tokenizer folder, loaded by transformers."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer  # heavy, and most tests need none

        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
        self.eos_ids = frozenset({self._tokenizer.eos_token_id})
        limit = self._tokenizer.model_max_length
        self.max_length: int | None = limit if limit < 10**9 else None  # transformers' "no limit" is 10^30

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False)
        )

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text))

    def render(
        self, messages: list[dict[str, Any]], tools: Any, kwargs: dict[str, Any], *, generate: bool
    ) -> list[int]:
        text = self._tokenizer.apply_chat_template(
            messages, tools=tools or None, tokenize=False, add_generation_prompt=generate, **kwargs
        )
        return list(self._tokenizer.encode(text, add_special_tokens=False))
