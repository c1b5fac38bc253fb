"""What services need to do their work, made once per process by its composition root."""

from dataclasses import dataclass

from db.engine import Database
from db.idstore import IdStore
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache


@dataclass(frozen=True, slots=True)
class Context:
    """Settings, the database, the id store and loaded tokenizers."""

    settings: Settings
    db: Database
    ids: IdStore
    tokenizers: TokenizerCache
