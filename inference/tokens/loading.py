"""From a folder to a `Tokenizer`: what is read, what is refused, and why in words.

A checkpoint's own Python runs only where the operator allowed it. Everything is read from one folder, so that what was
hashed is what was used.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inference.tokens.errors import TokensError
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.vocabulary import Style, Vocabulary

VOCABULARY_FILES = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "spiece.model")
_FILES = (*VOCABULARY_FILES, "tokenizer_config.json", "chat_template.jinja", "config.json", "generation_config.json")


def stamp(folder: Path) -> tuple[tuple[str, int], ...]:
    """The names and change times of the files that make a tokenizer: another stamp, another tokenizer."""
    found = [(name, folder / name) for name in _FILES]
    return tuple((name, path.stat().st_mtime_ns) for name, path in found if path.exists())


def load_folder(name: str, folder: Path, *, allow_remote_code: bool) -> Tokenizer:
    """The tokenizer in `folder`, named `name` in messages.

    Raises `TokensError`: `tokenizer_missing` (no tokenizer files), `remote_code_refused`, `tokenizer_unreadable`.
    """
    files = [file for file in VOCABULARY_FILES if (folder / file).is_file()]
    settings = _json(folder / "tokenizer_config.json")
    if not files and not settings:
        raise TokensError("tokenizer_missing", f"{name} holds no tokenizer (no tokenizer.json): {folder}", "tokenizer")
    own_code = "AutoTokenizer" in (settings.get("auto_map") or {})
    if own_code and "tokenizer.json" not in files and not allow_remote_code:
        raise _refused(name)
    backend = _load(name, folder, own_code=own_code, allow_remote_code=allow_remote_code)
    template = _template(backend)
    return Tokenizer(
        name,
        backend,
        _vocabulary(backend),
        path=folder,
        sha256=_digest(*((folder / file).read_bytes() for file in files)) if files else _digest(_dump(backend)),
        template=template,
        template_sha256=None if template is None else _digest(template.encode()),
        model_config=_json(folder / "config.json"),
        generation_config=_json(folder / "generation_config.json"),
    )


def _first_that_loads(usual: Callable[[], Any], other: Callable[[], Any], *, fall_back: bool) -> Any:
    """What `usual` loads, else what `other` loads; where both fail, the error of the usual way."""
    try:
        return usual()
    except Exception:
        if fall_back:
            with contextlib.suppress(Exception):
                return other()
        raise


def _load(name: str, folder: Path, *, own_code: bool, allow_remote_code: bool) -> Any:
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # it would advise installing torch
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        backend = _first_that_loads(
            lambda: AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=allow_remote_code
            ),
            # a checkpoint of a model that this transformers does not know, or whose own code may not run
            lambda: PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True),
            fall_back=(folder / "tokenizer.json").is_file() and not (own_code and allow_remote_code),
        )
    except Exception as error:  # a tokenizer's loader raises anything, its own code included
        if not allow_remote_code and "trust_remote_code" in str(error):
            raise _refused(name) from error
        reason = " ".join(str(error).split())[:400]
        message = f"The tokenizer {name} cannot be loaded: {reason or type(error).__name__}"
        raise TokensError("tokenizer_unreadable", message, "tokenizer") from error
    fast = getattr(backend, "backend_tokenizer", None)
    if fast is not None:
        fast.no_truncation()
        fast.no_padding()
    return backend


def _refused(name: str) -> TokensError:
    return TokensError(
        "remote_code_refused",
        f"The tokenizer {name} is Python code of the checkpoint's own, which is not run unless the operator allows it: "
        "set DRAFTMILL_ALLOW_REMOTE_CODE=true if you trust this checkpoint.",
        "tokenizer",
    )


def _template(backend: Any) -> str | None:
    """The chat template as text; several named ones as JSON (which of them is used is the tokenizer's choice)."""
    template = getattr(backend, "chat_template", None)
    if isinstance(template, dict):
        return json.dumps(template, sort_keys=True, ensure_ascii=False) if template else None
    return template if isinstance(template, str) and template else None


def _vocabulary(backend: Any) -> Vocabulary:
    added = {int(key): (str(token.content), bool(token.special)) for key, token in backend.added_tokens_decoder.items()}
    return Vocabulary(backend.get_vocab(), added, _style(backend))


def _style(backend: Any) -> Style:
    fast = getattr(backend, "backend_tokenizer", None)
    if fast is None:  # the checkpoint's own code: Kimi's tiktoken wrapper spells its tokens as GPT-2 did
        return "byte_level" if hasattr(backend, "byte_encoder") or hasattr(backend, "byte_decoder") else "spaced"
    decoders = set(_types(json.loads(fast.to_str()).get("decoder")))
    if "ByteLevel" in decoders:
        return "byte_level"
    return "spaced" if decoders & {"ByteFallback", "Metaspace"} else "literal"


def _types(decoder: Mapping[str, Any] | None) -> list[str]:
    if not decoder:
        return []
    return [str(decoder.get("type")), *(kind for inner in decoder.get("decoders", ()) for kind in _types(inner))]


def _dump(backend: Any) -> bytes:
    return json.dumps(sorted(backend.get_vocab().items(), key=lambda item: item[1])).encode()


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise TokensError("tokenizer_unreadable", f"{path} is not JSON: {error}", "tokenizer") from error
    return value if isinstance(value, dict) else {}
