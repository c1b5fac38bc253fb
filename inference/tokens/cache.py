"""Tokenizers by name, loaded once, from where the operator allows and nowhere else.

A name is a folder under one of the model roots (absolute, or relative to a root), or a hub id `org/name`. Where a path leads
is judged after every symlink is followed, for the folder and for the files in it.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from inference.tokens.errors import TokensError
from inference.tokens.loading import load_folder, stamp
from inference.tokens.tokenizer import Tokenizer

_HUB_ID = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?/[A-Za-z0-9](?:[\w.-]*\w)?")
_WANTED = ("*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken")
_KEPT = 8


class TokenizerCache:
    """The last few tokenizers, safe to ask from several threads; a tokenizer whose files changed is loaded again."""

    def __init__(self, model_roots: Sequence[Path], allow_remote_code: bool) -> None:
        self._roots = [root.expanduser().resolve() for root in model_roots]
        self._allow_remote_code = allow_remote_code
        self._lock = threading.Lock()
        self._loaded: OrderedDict[tuple[Path, object], Tokenizer] = OrderedDict()

    def get(self, name: str, *, fetch: bool = True) -> Tokenizer:
        """The tokenizer of that name. Without `fetch` a hub id is taken from the hub's cache alone, and nothing is downloaded.

        Raises `TokensError`: `tokenizer_outside_roots`, `tokenizer_missing`, `remote_code_refused`, `tokenizer_unreadable`.
        """
        folder = self.find(
            name, fetch=fetch
        )  # without the lock: a hub may take minutes, and others' tokenizers are here already
        with self._lock:
            key = (folder, stamp(folder))
            tokenizer = self._loaded.get(key)
            if tokenizer is None:
                tokenizer = load_folder(name, folder, allow_remote_code=self._allow_remote_code)
                self._loaded[key] = tokenizer
                while len(self._loaded) > _KEPT:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(key)
            return tokenizer

    def find(self, name: str, *, fetch: bool = True) -> Path:
        """The folder that a name stands for, every symlink followed; a hub id is found in the hub's cache, or fetched."""
        if not name.strip() or "\0" in name:
            raise TokensError(
                "tokenizer_missing", "Name a tokenizer: a folder under the model roots or a hub id.", "tokenizer"
            )
        given = Path(name)
        with suppress(RuntimeError):  # nobody of that name: no path of ours either
            given = given.expanduser()
        if ".." in given.parts or (given.is_absolute() and not self._under_roots(given.resolve())):
            raise self._outside(name)  # whether or not it exists: that is nobody's to find out
        for place in [given] if given.is_absolute() else [root / given for root in self._roots]:
            if _exists(place):
                return self._confined(name, place.resolve())
        if _HUB_ID.fullmatch(name) and ".." not in name:
            return self._from_hub(name, fetch=fetch)
        roots = ", ".join(map(str, self._roots)) or "none is set"
        raise TokensError(
            "tokenizer_missing", f"There is no tokenizer folder {name} (model roots: {roots}).", "tokenizer"
        )

    def _confined(self, name: str, folder: Path) -> Path:
        if not self._under_roots(folder):
            raise self._outside(name)
        if not folder.is_dir():
            raise TokensError("tokenizer_missing", f"{name} is a file; name the folder that holds it.", "tokenizer")
        for file, _ in stamp(folder):
            if not self._under_roots((folder / file).resolve()):
                raise self._outside(f"{name}/{file}")
        return folder

    def _under_roots(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)

    def _outside(self, name: str) -> TokensError:
        roots = ", ".join(map(str, self._roots)) or "none is set"
        message = f"{name} lies outside the model roots ({roots}); add its folder to DRAFTMILL_MODEL_ROOTS."
        return TokensError("tokenizer_outside_roots", message, "tokenizer")

    def _from_hub(self, name: str, *, fetch: bool) -> Path:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

        wanted = [*_WANTED, "*.py"] if self._allow_remote_code else [*_WANTED]
        try:
            ignored = ["*/*", "*.index.json"]
            return Path(
                snapshot_download(name, allow_patterns=wanted, ignore_patterns=ignored, local_files_only=not fetch)
            )
        except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            message = f"{name} is no folder under the model roots, and the hub did not give it: {reason}"
            if not fetch:
                message = (
                    f"{name} is no folder under the model roots, and it was not fetched from the hub yet: an operator's render, or a "
                    "run with it, fetches it."
                )
            raise TokensError("tokenizer_missing", message, "tokenizer") from error


def _exists(path: Path) -> bool:
    """Whether it does; a name that no file system takes does not."""
    try:
        return path.exists()
    except OSError:
        return False
