"""One tokenizer as the rest of the house sees it: exact ids, exact bytes, and the facts that decide what may be sent.

Text here is always the UTF-8 reading of the joined token bytes. That is what byte-level tokenizers decode to anyway, and it keeps
what a SentencePiece decoder drops (the leading space of an answer, which is part of its ids).
"""

import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.tokens.ids import Ids, as_ids
from inference.tokens.vocabulary import BLANK, Kind, Vocabulary

_FIRST_FEW = 8


class Tokenizer:
    """A loaded tokenizer. Safe to use from several threads.

    `vocab_size` bounds what may be sent: ids with 0 ≤ id < vocab_size have an embedding row. It is the model's own row count
    (config.json's `vocab_size`) where a config lies beside the tokenizer, else the number of tokens. Rows past the last
    token are padding: the server accepts them, but nothing here decodes them.
    """

    def __init__(
        self,
        name: str,
        backend: Any,
        vocabulary: Vocabulary,
        *,
        path: Path | None,
        sha256: str,
        template: str | None,
        template_sha256: str | None,
        model_config: Mapping[str, Any],
        generation_config: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.path = path
        self.sha256 = sha256
        self.template = template
        self.template_sha256 = template_sha256
        self.model_config = dict(model_config)
        self.generation_config = dict(generation_config)
        self.vocabulary = vocabulary
        self.backend = backend
        self.lock = threading.RLock()
        self._fast = getattr(backend, "backend_tokenizer", None)
        self.is_fast = self._fast is not None
        self.renders_verified = 0
        self.template_wants: dict[tuple[str, str], Any] = {}
        nested = self.model_config.get("text_config")
        configs = [self.model_config, *([nested] if isinstance(nested, dict) else [])]
        rows = (config.get("vocab_size") for config in configs)
        self.vocab_size = next((n for n in rows if isinstance(n, int) and n > 0), vocabulary.size)
        self.bos_id: int | None = getattr(backend, "bos_token_id", None)
        self.stop_ids = self._stop_ids([self.generation_config, *configs])

    def _stop_ids(self, places: Sequence[Mapping[str, Any]]) -> frozenset[int]:
        found: set[int] = set()
        for value in (getattr(self.backend, "eos_token_id", None), *(place.get("eos_token_id") for place in places)):
            found.update(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int))
        return frozenset(found)

    @property
    def model_type(self) -> str:
        """config.json's `model_type`, empty where there is none."""
        return str(self.model_config.get("model_type") or "")

    def encode(self, text: str) -> list[int]:
        """The ids of a text, nothing added; control tokens spelled in it become their ids."""
        with self.lock:
            if self._fast is not None:
                return list(self._fast.encode(text, add_special_tokens=False).ids)
            return [int(number) for number in self.backend.encode(text, add_special_tokens=False)]

    def decode(self, ids: Sequence[int] | NDArray[np.uint32]) -> str:
        """The text of the ids, control tokens spelled out; U+FFFD stands only for bytes that are no character."""
        return self.bytes_of(ids).decode("utf-8", "replace")

    def bytes_of(self, ids: Sequence[int] | NDArray[np.uint32]) -> bytes:
        """The joined bytes of the ids."""
        return self.vocabulary.join(as_ids(ids).tolist())

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes one id stands for; empty for an id without a token."""
        return self.vocabulary.bytes_of(token_id)

    def token_text(self, token_id: int) -> str:
        """The text of one id alone; a part of a character reads U+FFFD."""
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def id_of(self, token_text: str) -> int | None:
        """The id of the single token with this text, None where the vocabulary has no such token."""
        return self.vocabulary.id_of(token_text)

    def kind_of(self, token_id: int) -> Kind:
        """text, special, added, byte (no whole character alone) or unknown (no token has this id)."""
        return self.vocabulary.kind_of(token_id)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of the tokens that the tokenizer itself flags as special."""
        return frozenset(number for number, (_, special) in self.vocabulary.added.items() if special)

    def is_blank(self, ids: Ids) -> bool:
        """Whether the ids say nothing but whitespace (no ids at all: yes)."""
        table = self.vocabulary.blankness
        if not table.take(ids[:_FIRST_FEW], mode="clip").all():  # nearly always settles it
            return False
        classes = table.take(ids, mode="clip")
        if not classes.all():  # NOT_BLANK is 0
            return False
        if (classes == BLANK).all():
            return True
        return self.decode(ids).isspace()

    @cached_property
    def control_pattern(self) -> re.Pattern[str] | None:
        """Finds the texts of added tokens, longest first: text that spells one becomes its id when encoded."""
        texts = sorted((text for text, _ in self.vocabulary.added.values() if text.strip()), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts))) if texts else None
