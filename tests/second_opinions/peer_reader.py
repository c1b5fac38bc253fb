"""The reader of `renderers`, on our tokenizers."""

import re
from functools import cache
from typing import Any

from inference.tokens.tokenizer import Tokenizer
from tests.second_opinions.peers import PEERS
from tests.support.absent import missing
from tests.support.families import Family

NO_SUCH_ID = 10_000_000


class Words:
    """Our tokenizer as theirs takes one; a token that the made-up vocabulary lacks gets an id that no answer holds."""

    unk_token_id = None
    eos_token_id = None
    name_or_path = "made-up"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.lacking: dict[str, int] = {}

    def encode(self, text: str, **_: Any) -> list[int]:
        missing = re.fullmatch(r"<｜[^｜]+｜>", text) and self.tokenizer.id_of(text) is None
        return [self.convert_tokens_to_ids(text) or 0] if missing else self.tokenizer.encode(text)

    def decode(self, ids: list[int], **_: Any) -> str:
        return self.tokenizer.decode(ids)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        found = self.tokenizer.id_of(token.replace(":opensource", ""))  # Hy3's vocabulary has a suffix in each
        if found is None and not token.endswith("think>"):
            found = self.lacking.setdefault(token, NO_SUCH_ID + len(self.lacking))
        return found


class HarmonyReader:
    """Their reader of harmony without their renderer, which fetches a vocabulary from the network when it is made."""

    def __init__(self, words: Words) -> None:
        self.words = words
        names = ("return", "call", "start", "end", "channel", "message", "constrain")
        self.ids = {f"{name}_id": words.tokenizer.id_of(f"<|{name}|>") for name in names}

    def get_stop_token_ids(self) -> list[Any]:
        return [self.ids["return_id"]]

    def parse_response(self, ids: list[int], **_: Any) -> Any:
        from renderers.parsing import parse_gpt_oss

        return parse_gpt_oss(self.words, ids, **self.ids)


@cache
def renderer(name: str, family: Family) -> Any:
    try:
        from renderers import base, configs
    except ImportError:
        missing("the package renderers is not installed")
    peer = PEERS[name]
    words = Words(family.tokenizer)
    if name == "gpt_oss":
        return HarmonyReader(words)
    made = next(
        kind
        for kind in vars(configs).values()
        if isinstance(kind, type)
        and getattr(kind, "model_fields", {}).get("name") is not None
        and kind.model_fields["name"].default == peer.config
    )
    return base.create_renderer(words, made())
