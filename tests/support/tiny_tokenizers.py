"""Made-up tokenizers in the three byte styles, small enough to build in a test and exact enough to trust.

`make_tokenizer` writes a folder that `AutoTokenizer` loads like any checkpoint's: tokenizer.json, tokenizer_config.json with a
chat template, config.json with the embedding rows, generation_config.json with the stop ids. Added tokens may carry the ids
that the real family gives them, so a test can speak of `<think>` 163606 without Kimi's files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

Style = Literal["byte_level", "byte_fallback", "sentencepiece"]

CHATML = (
    "{%- if tools %}{{ '<|im_start|>system\\n# Tools\\n' }}{% for t in tools %}{{ t | tojson }}{{ '\\n' }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endif %}"
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.reasoning_content is defined %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
    "{{- m.content }}"
    "{%- for c in m.tool_calls or [] %}{{ '<tool_call>' }}{{ c.function | tojson }}{{ '</tool_call>' }}{% endfor %}"
    "{{- '<|im_end|>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"
)
"""ChatML as Qwen3 uses it: the model opens the think block itself; `enable_thinking=false` closes it in the prompt."""

CHATML_OPENED = CHATML.replace("{% endif %}{% endif %}", "{% else %}{{ '<think>' }}{% endif %}{% endif %}")
"""The same, with the think block opened by the prompt (as in Qwen3-Thinking and the demo checkpoint)."""


@dataclass(frozen=True)
class Added:
    """An added token: its text, the id it must have (None: the next free one), and whether it is flagged special."""

    content: str
    id: int | None = None
    special: bool = True


QWEN3 = (
    Added("<|endoftext|>", 151643),
    Added("<|im_start|>", 151644),
    Added("<|im_end|>", 151645),
    Added("<tool_call>", 151657, special=False),
    Added("</tool_call>", 151658, special=False),
    Added("<tool_response>", 151665, special=False),
    Added("</tool_response>", 151666, special=False),
    Added("<think>", 151667, special=False),
    Added("</think>", 151668, special=False),
)
KIMI_K2 = (
    Added("[BOS]", 163584),
    Added("[EOS]", 163585),
    Added("<|im_end|>", 163586),
    Added("<|im_user|>", 163587),
    Added("<|im_assistant|>", 163588),
    Added("<|im_system|>", 163594),
    Added("<|tool_calls_section_begin|>", 163595),
    Added("<|tool_calls_section_end|>", 163596),
    Added("<|tool_call_begin|>", 163597),
    Added("<|tool_call_argument_begin|>", 163598),
    Added("<|tool_call_end|>", 163599),
    Added("<|im_middle|>", 163601),
    Added("<think>", 163606),
    Added("</think>", 163607),
)
DEEPSEEK_R1 = (
    Added("<｜begin▁of▁sentence｜>", 128000),
    Added("<｜end▁of▁sentence｜>", 128001),
    Added("<think>", 128798, special=False),
    Added("</think>", 128799, special=False),
    Added("<｜User｜>", 128803, special=False),
    Added("<｜Assistant｜>", 128804, special=False),
    Added("<｜tool▁calls▁begin｜>", 128806, special=False),
    Added("<｜tool▁calls▁end｜>", 128807, special=False),
    Added("<｜tool▁call▁begin｜>", 128808, special=False),
    Added("<｜tool▁call▁end｜>", 128809, special=False),
    Added("<｜tool▁outputs▁begin｜>", 128810, special=False),
    Added("<｜tool▁outputs▁end｜>", 128811, special=False),
    Added("<｜tool▁output▁begin｜>", 128812, special=False),
    Added("<｜tool▁output▁end｜>", 128813, special=False),
    Added("<｜tool▁sep｜>", 128814, special=False),
)
KIMI_TEMPLATE = (
    "{%- for m in messages %}{{ '<|im_' + m.role + '|>' + m.role + '<|im_middle|>' + m.content + '<|im_end|>' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_assistant|>assistant<|im_middle|>' }}"
    "{%- if thinking is not defined or thinking %}{{ '<think>' }}{% endif %}{% endif %}"
)
DEEPSEEK_TEMPLATE = (
    "{{ bos_token }}{%- for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content }}"
    "{% elif m.role == 'assistant' %}{{ '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' }}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}"
)

_CORPUS = (
    "The quick brown fox jumps over the lazy dog. The user wants the time in Oslo, so I call the tool and wait.",
    'Two and three make five. The answer is four. {"name": "get_time", "arguments": {"city": "Oslo", "tz": "UTC"}}',
    "def check(value):\n    return value + 1\n\nStep one, step two, step three: check the answer again.\n\n",
)
_TRAINED = 600


def make_tokenizer(
    path: Path,
    *,
    style: Style = "byte_level",
    added: Sequence[str | Added] = QWEN3,
    template: str | None = CHATML,
    bos: str | None = None,
    eos: str | None = "<|im_end|>",
    stop: Sequence[str] = (),
    config: Mapping[str, object] | None = None,
) -> Path:
    """A tokenizer folder at `path` (made if missing), loadable offline; returns `path`.

    `bos` and `eos` name added tokens. `stop` names further stop ids, written to generation_config.json. `config` adds to
    config.json, whose `vocab_size` defaults to one past the largest id.
    """
    path.mkdir(parents=True, exist_ok=True)
    wanted = [item if isinstance(item, Added) else Added(item) for item in added]
    base = {"byte_level": _byte_level, "byte_fallback": _byte_fallback, "sentencepiece": _sentencepiece}[style]()
    spec = json.loads(base.to_str())
    ids = _place(spec, wanted)
    (path / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    for item in wanted:
        assert tokenizer.token_to_id(item.content) == ids[item.content], item
    named = {key: name for key, name in (("bos_token", bos), ("eos_token", eos)) if name in ids}
    settings: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **named,
    }
    if template is not None:
        settings["chat_template"] = template
    _write(path / "tokenizer_config.json", settings)
    vocab = spec["model"]["vocab"]
    rows = max(vocab.values()) + 1 if isinstance(vocab, dict) else len(vocab)
    eos_ids = [ids[name] for name in (eos, *stop) if name in ids]
    _write(
        path / "config.json", {"model_type": "llama", "vocab_size": rows, "eos_token_id": eos_ids[:1], **(config or {})}
    )
    _write(path / "generation_config.json", {"eos_token_id": eos_ids, "temperature": 0.6, "top_p": 0.95})
    return path


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def _place(spec: dict[str, Any], wanted: Sequence[Added]) -> dict[str, int]:
    """Puts the added tokens into the vocabulary under their ids (BPE) or at its end (Unigram), and lists them as added."""
    vocab = spec["model"]["vocab"]
    taken = set(vocab.values()) if isinstance(vocab, dict) else set(range(len(vocab)))
    known = {entry["content"]: entry["id"] for entry in spec["added_tokens"]}
    free = max(taken) + 1
    ids: dict[str, int] = {}
    for item in wanted:
        number = known.get(item.content, item.id)
        if number is None or not isinstance(vocab, dict):
            number = free
        while number in taken and item.content not in known:
            number += 1
        ids[item.content] = number
        taken.add(number)
        free = max(free, number + 1)
        if isinstance(vocab, dict):
            vocab[item.content] = number
        else:
            vocab.append([item.content, -100.0])
        spec["added_tokens"].append(
            {
                "id": number,
                "content": item.content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": item.special,
            }
        )
    return ids


def _byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(r"\s*\n+| ?\w+| ?[^\w\s]+|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_TRAINED, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _byte_fallback() -> Tokenizer:
    """As Llama 2's converted tokenizer: ▁ for spaces, `<0xNN>` for what the vocabulary lacks, one leading space added."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(
        vocab_size=_TRAINED,
        show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{number:02X}>" for number in range(256))],
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"▁?[^▁]+"), "isolated")
    tokenizer.train_from_iterator([text.replace("\n", " ") for text in _CORPUS], trainer)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    spec = json.loads(tokenizer.to_str())
    spec["added_tokens"] = [entry for entry in spec["added_tokens"] if entry["content"] in {"<unk>", "<s>", "</s>"}]
    return Tokenizer.from_str(json.dumps(spec))


def _sentencepiece() -> Tokenizer:
    """A Unigram model over ▁-marked words, with bytes to fall back on."""
    characters = sorted({character for text in _CORPUS for character in text if not character.isspace()})
    words = sorted({"▁" + word for text in _CORPUS for word in text.split()})
    pieces = [("<unk>", 0.0), *((f"<0x{number:02X}>", -20.0) for number in range(256)), ("▁", -3.0)]
    pieces += [(character, -8.0) for character in characters] + [(word, -6.0) for word in words]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(replacement="▁", prepend_scheme="first")]
    )
    tokenizer.add_special_tokens([AddedToken("<unk>", special=True)])
    return tokenizer
