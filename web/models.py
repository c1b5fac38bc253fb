"""Checkpoints and tokenizers that are known here, to offer in forms."""

from collections.abc import Sequence
from pathlib import Path

from sqlmodel import Session

from inference.backends import service as backends
from inference.context import Context

_DEPTH = 3
_MOST = 50
_MARKS = ("config.json", "tokenizer.json", "tokenizer_config.json")


def checkpoints(roots: Sequence[Path]) -> list[str]:
    """Folders that look like a checkpoint, at most three levels below a root and fifty in all."""
    found: list[str] = []
    for root in roots:
        level = [root]
        for _ in range(_DEPTH):
            level = [child for folder in level for child in _folders(folder)]
            found += [str(folder) for folder in level if any((folder / mark).is_file() for mark in _MARKS)]
            if len(found) >= _MOST:
                return sorted(found)[:_MOST]
    return sorted(found)


def known_tokenizers(ctx: Context, session: Session) -> list[str]:
    """The checkpoints below the model roots, then what the backends serve besides."""
    found = checkpoints(ctx.settings.model_roots)
    served = [backend.model for backend in backends.list_backends(session) if backend.model]
    return list(dict.fromkeys([*found, *served]))


def _folders(folder: Path) -> list[Path]:
    try:
        return [child for child in sorted(folder.iterdir())[:200] if child.is_dir() and not child.name.startswith(".")]
    except OSError:
        return []
